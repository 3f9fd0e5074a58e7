"""Headless Chromium over WebDriver (Debian's chromium and chromium-driver), with the standard library alone."""

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request


def missing():
    """What is not installed, or None."""
    for name in ("chromium", "chromedriver"):
        if shutil.which(name) is None:
            return name
    return None


class Browser:
    def __init__(self):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.root = f"http://127.0.0.1:{found[1]}"
                break
        options = {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"],
            "binary": shutil.which("chromium"),
        }
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        self.session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.root + path, None if body is None else json.dumps(body).encode(), method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def command(self, path, body=None, method="POST"):
        return self.ask(method, f"/session/{self.session}{path}", {} if body is None and method == "POST" else body)

    def open(self, url, width=1280, height=900):
        self.command("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}})
        self.logs()
        self.command("/url", {"url": "about:blank"})  # a new address that differs behind '#' alone would not load
        self.command("/url", {"url": url})

    def run(self, script, *arguments):
        return self.command("/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, condition, seconds=60):
        """The first value of the script that is true."""
        end = time.monotonic() + seconds
        while not (value := self.run("return " + condition)):
            if time.monotonic() > end:
                raise RuntimeError(f"did not come true: {condition}")
            time.sleep(0.02)
        return value

    def logs(self):
        """What the console said, and the addresses that were asked for, since the last call."""
        said = [entry["message"] for entry in self.command("/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]
        asked = []
        for entry in self.command("/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return said, [url for url in asked if not url.startswith(("data:", "about:"))]

    def screenshot(self, file):
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.command("/screenshot", method="GET")))

    def close(self):
        try:
            self.command("", method="DELETE")
        finally:
            self.driver.terminate()
            self.driver.wait()
