"""What the text of a row says of the network between its nodes: cards of a node, and the rate of one."""
import re

# Words of one kind of network each. A word inside a longer one does not count.
KIND_WORDS = (
    (r"ip\s?o\s?ib", "TCP"), (r"gpu\s?direct-?\s?tcpxo?", "TCP"), (r"tcpxo?", "TCP"), (r"tcp(?:/ip)?", "TCP"), (r"roce(?:\s?-?v?[12])?", "RoCE"),
    (r"spectrum(?:-?x|-?\d)?", "RoCE"), (r"efa(?:\s?v\d)?", "EFA"), (r"infini-?\s?band", "InfiniBand"), (r"ib", "InfiniBand"),
    (r"quantum(?:-\w)?", "InfiniBand"), (r"[fehnx]dr(?:\d{2,3})?", "InfiniBand"), (r"slingshot(?:[\s-]?1[01])?", "Slingshot"),
    (r"omni-?\s?path", "Omni-Path"), (r"opa", "Omni-Path"), (r"ethernet", "Ethernet"), (r"\d+\s*gbe", "Ethernet"),
)
# What a network may run over without contradiction.
OVER = {"TCP": ("RoCE", "EFA", "InfiniBand", "Slingshot", "Omni-Path", "Ethernet"), "RoCE": ("Ethernet",), "EFA": ("Ethernet",),
        "Slingshot": ("Ethernet",)}
# Gb/s of one port by the name of its speed, the usual one first: four lanes of InfiniBand (IBTA's roadmap), two of them under names
# that end in the lower figure; Slingshot's Cassini and, before it, ConnectX-5.
SPEEDS = {"fdr": (56,), "edr": (100,), "hdr": (200, 100), "hdr100": (100,), "hdr200": (200,), "ndr": (400, 200), "ndr200": (200,),
          "ndr400": (400,), "xdr": (800,), "xdr800": (800,), "slingshot11": (200,), "slingshot10": (100,)}
SLOW = 100  # Gb/s: up to this, Ethernet without RDMA is one adapter of a server
FASTEST = 800  # Gb/s of a port: no adapter is sold with more (ConnectX-8, 2024)

BITS = {"Tb": 1000, "T": 1000, "Gb": 1, "G": 1, "GB": 8}  # Gb/s of a unit
RATE = re.compile(r"(\d+(?:\.\d+)?)\s*-?(Tb|Gb|GB|T|G)(?:it|its|yte|ytes|igabit)?(?:\s*/\s*s(?:ec)?|ps|E|e)?(?![A-Za-z])", re.IGNORECASE)
# "Spectrum-X 400": a lone figure behind a network's name.
BARE_RATE = re.compile(r"(?:spectrum-?x|infiniband|ib|roce|ethernet|efa|omni-?path)\s+(\d{2,4})(?![\w.])", re.IGNORECASE)
SPEED = re.compile(r"(?<![A-Za-z0-9])(?:\d+\s*[x×*]\s*)?([FEHNX]DR(?:\s?(?:100|200|400|800)(?!\d|\s*[GT]))?|slingshot[\s-]?1[01])(?![A-Za-z0-9])", re.IGNORECASE)
# "one 100 GbE NIC", "8 NICs": the figure before a card is its number, unless it is a rate.
IN_WORDS = {"single": 1, "one": 1, "dual": 2, "two": 2, "four": 4, "quad": 4, "eight": 8}
CARDS = (re.compile(r"(?<![\w.-])(\d+)\s*[x×*](?!\w*[\d.]+x)", re.IGNORECASE), re.compile(r"(?:[\s)]|ps|/s)[x×*]\s?(\d+)(?![\w.])", re.IGNORECASE),
         re.compile(r"(?<![\w.-])(\d+)\s+(?!(?:Tb|Gb|GB|T|G)(?:\b|/|E|p|it))(?:\w+\s+){0,2}(?:NIC|HCA|adapter|card|port|link|ConnectX-?\d|CX-?\d|BlueField-?\d)s?\b",
                    re.IGNORECASE),
         re.compile(r"(?<![\w.-])(\d+)[\s-]rails?\b", re.IGNORECASE),
         re.compile(rf"\b({'|'.join(IN_WORDS)})\b(?![\s-]*(?:port|rail|plane|link))", re.IGNORECASE))
WHOLE_NODE = re.compile(r"\b(?:per|each|a)[\s-](?:node|host|server|machine|instance|vm)\b|/\s?(?:node|host|server)\b|\bnode-node\b|"
                        r"\b(?:total|aggregate)\b", re.IGNORECASE)
SHARED_BY = re.compile(r"\bper\s+(\d|two|four)\s+(?:gpu|accelerator)s\b", re.IGNORECASE)
EACH_GPU = re.compile(r"\b(?:per|each|a)[\s-](?:gpu|accelerator)\b|/\s?gpu\b", re.IGNORECASE)
# Parts of a list that are no adapters of training: cards of another purpose, links inside a node.
OTHER_PURPOSE = re.compile(r"nvlink|nvswitch|\bintra-?\b|management|storage|\bbmc\b|gpu-pcie|pcie-nic|data bandwidth", re.IGNORECASE)


class Network:
    """`cards` of `rate` Gb/s in a node. None: the text does not say. `open`: what was taken where it may be read in two ways;
    `fault`: why nothing was read."""

    def __init__(self, cards=None, rate=None, open=None, fault=None):
        self.cards, self.rate, self.open, self.fault = cards, rate, open, fault

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return f"Network({', '.join(f'{key}={value!r}' for key, value in vars(self).items() if value is not None)})"


def kinds_of(part):
    """{kind: the word that names it} without the networks that another of them runs over."""
    found = {}
    for pattern, kind in KIND_WORDS:
        match = re.search(rf"(?<![A-Za-z0-9-])(?:\d+\s*[x×*]\s*)?({pattern})(?![A-Za-z0-9])", part, re.IGNORECASE)
        if match:
            found.setdefault(kind, match[1])
    below = {kind for name in found for kind in OVER.get(name, ())}
    return {kind: word for kind, word in found.items() if kind not in below}


def quoted(word, kind):
    return f"'{word}'" if word.lower() == kind.lower() else f"'{word}' ({kind})"


def training_parts(text):
    """The parts of a list that are about the network of training."""
    compute = re.search(r"compute:\s*([^,;]*)", text, re.IGNORECASE)
    if compute:
        return [compute[1]]
    parts = re.split(r"[;,](?![^(]*\))|\s\+\s", text)
    return [part for part in parts if not OTHER_PURPOSE.search(part)]


def gigabits(rate):
    number, unit = rate.groups()
    # Of "Gb" and "GB" the second letter tells bits from bytes; "gb" is bits, as networks are sold.
    return float(number) * BITS["GB" if unit.endswith("B") else unit.capitalize()]


def cards_of(part):
    found = next((found[1].lower() for found in (form.search(part) for form in CARDS) if found), None)
    return None if found is None else IN_WORDS.get(found) or int(found)


def read_part(part, per_node, link=None):
    kinds = kinds_of(part)
    if len(kinds) > 1:
        return Network(fault=" and ".join(quoted(word, kind) for kind, word in kinds.items()) + " contradict each other")
    stated = RATE.search(part)
    bare = None if stated else BARE_RATE.search(part)
    rate = gigabits(stated) if stated else float(bare[1]) if bare else None
    figure = stated[0].strip() if stated else bare[1] if bare else ""
    named = SPEED.search(part)
    speeds = SPEEDS.get(re.sub(r"[\s-]", "", named[1]).lower()) if named else None
    cards = cards_of(part)
    if rate is None and speeds is None:
        return Network(cards * per_node if cards and EACH_GPU.search(part) else cards)
    whole = WHOLE_NODE.search(part)
    if cards and whole and speeds and rate in [cards * speed for speed in speeds]:
        rate /= cards  # "2x HDR200 (400 Gb/s total)"
    each_gpu = EACH_GPU.search(part)
    shared = SHARED_BY.search(part)
    if shared:
        cards = max(1, per_node // (IN_WORDS.get(shared[1].lower()) or int(shared[1])))
    # A rate beyond what a GPU's link to its adapter carries (400 Gb/s on PCIe 4) is no adapter's.
    beyond = link is not None and stated and not speeds and rate > 1.05 * link
    of_one = cards or each_gpu or (not whole and not beyond and (rate or 0) <= FASTEST)
    if rate and speeds and of_one and rate not in speeds:
        return Network(fault=f"'{named[1].strip()}' is {' or '.join(map(str, speeds))} Gb/s and '{figure}' is not")
    if rate and of_one and rate > FASTEST:
        return Network(fault=f"'{figure}' of one adapter is {rate:g} Gb/s and none has more than {FASTEST}")
    rate = rate or float(speeds[0])
    if cards:
        # InfiniBand writes the lanes of a link as users write the cards of a node: 4x HDR.
        lanes = cards == 4 and not stated and not whole
        return Network(cards * per_node if each_gpu else cards, rate, f"'{part.strip()}' as four adapters, not as four lanes of one" if lanes else None)
    if each_gpu:
        return Network(per_node, rate)
    if not of_one or "EFA" in kinds:  # AWS states the bandwidth of an instance
        return Network(per_node, rate / per_node)  # as one card per GPU
    if set(kinds) == {"Ethernet"} and rate <= SLOW:
        return Network(1, rate, "one adapter a node, as servers have it on Ethernet of this rate")
    return Network(None, rate, "as many adapters as the reference node has")


def read_network(text, per_node, link=None):
    """`per_node`: GPUs of a node. `link`: Gb/s of a GPU's link to the host, or None."""
    texts = training_parts(text)
    parts = [read_part(part, per_node) for part in texts]
    if not any(part.cards for part in parts):  # else the rate is that of each
        parts = [read_part(part, per_node, link) for part in texts]
    fault = next((part for part in parts if part.fault), None)
    rated = [part for part in parts if part.rate]
    if fault or not rated:
        return fault or Network()
    counted = next((part for part in rated if part.cards), None)  # "Slingshot-11, 4x200Gb/s per node"
    cards = next((part.cards for part in parts if part.cards and not part.rate), None)
    if counted is None and cards:  # "4 NICs, 200 Gb/s each"
        return Network(cards, rated[0].rate)
    return counted or rated[0]
