"""A headless Chromium through chromedriver's WebDriver protocol; the standard library alone."""
import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

# Seconds after which a page that does nothing counts as broken; not a measure of speed.
PATIENCE = 120


def missing():
    """What stands in the way of running, or None."""
    for program in ("chromedriver", "chromium"):
        if shutil.which(program) is None:
            return f"{program} was not found (Debian: chromium chromium-driver)"
    return None


class Browser:
    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.profile = tempfile.mkdtemp(prefix="stepcast-web-")
        self.process = subprocess.Popen(["chromedriver", f"--port={port}", "--log-level=OFF"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}"
        self.session = ""
        self.wait(self.ready, "chromedriver to answer")
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-background-networking", "--no-first-run", f"--user-data-dir={self.profile}"]
        capabilities = {"goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
                        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = "/session/" + made["sessionId"]
        self.call("POST", self.session + "/timeouts", {"pageLoad": 1000 * PATIENCE, "script": 1000 * PATIENCE})

    def ready(self):
        try:
            with urllib.request.urlopen(self.base + "/status", timeout=PATIENCE) as reply:
                return json.load(reply)["value"]["ready"]
        except OSError:
            return False

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, method=method, data=data,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode()[:600]}") from None

    def devtools(self, command, **parameters):
        return self.call("POST", self.session + "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def script(self, text, *arguments):
        return self.call("POST", self.session + "/execute/sync", {"script": text, "args": list(arguments)})

    def log(self, kind):
        return self.call("POST", self.session + "/se/log", {"type": kind})

    def open(self, path, width, height, dark=False, scripts=True, media=""):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.devtools("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.log("browser")
        self.log("performance")
        self.call("POST", self.session + "/url", {"url": path})

    def wait(self, condition, what):
        end = time.monotonic() + PATIENCE
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {what}")
            time.sleep(0.05)

    def requests(self):
        """Addresses that the page asked for since it was opened, beside its own and what lies inside it."""
        out = []
        for entry in self.log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                out.append(message["params"]["request"]["url"])
        return [url for url in out if not url.startswith(("data:", "file:", "about:"))]

    def mouse(self, kind, x, y, **more):
        self.devtools("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, name, text="", modifiers=0):
        """By the name that KeyboardEvent.key has."""
        codes = {"Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "Escape": 27}
        for kind in ("rawKeyDown", "keyUp"):
            self.devtools("Input.dispatchKeyEvent", type=kind, key=name, text=text, modifiers=modifiers,
                          windowsVirtualKeyCode=codes.get(name, ord(name[0])))

    def screenshot(self, file):
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def pale(self):
        """Texts that stand out less than WCAG's level AA asks for (4.5), and how many were looked at."""
        return self.script("""
            const light = (c) => c.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
              .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
            const read = (text) => {
              const v = text.match(/[\\d.]+/g).map(Number), scale = text.startsWith('color(srgb') ? 255 : 1;
              return [v[0] * scale, v[1] * scale, v[2] * scale, v[3] ?? 1];
            };
            const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            let seen = 0;
            while (walk.nextNode()) {
              const text = walk.currentNode.textContent.trim(), at = walk.currentNode.parentElement;
              if (!text || at.closest('script, style, noscript, option') || !at.getClientRects().length) continue;
              let behind = [255, 255, 255];
              const layers = [];
              for (let e = at; e; e = e.parentElement) {
                const layer = read(getComputedStyle(e).backgroundColor);
                layers.unshift(layer);
                if (layer[3] >= 1) break;
              }
              for (const l of layers) behind = behind.map((v, i) => v * (1 - l[3]) + l[i] * l[3]);
              const style = getComputedStyle(at), ink = read(at instanceof SVGElement ? style.fill : style.color);
              const [a, b] = [light(ink.slice(0, 3)), light(behind)].sort((x, y) => y - x);
              ++seen;
              if ((a + 0.05) / (b + 0.05) < 4.5) found.push(text.slice(0, 60));
            }
            return [found, seen];""")

    def close(self):
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait()
            shutil.rmtree(self.profile, ignore_errors=True)
