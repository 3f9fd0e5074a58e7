"""Models of configs/ by the names that other programs and tables give them."""
import re

from . import presets

# What vendors and fine-tuned variants add to a name.
ADDED = ("meta", "instruct", "chat", "base", "v0.1", "hf", "v0.3", "config")
# And behind it, with a dash.
BEHIND = r"(?:[-_](?:it|pt|bnb|4bit))+$"

# Names under which the same sizes are known elsewhere.
ALIASES = {
    **{f"llama31{size}": f"llama-3.1-{size}" for size in ("8b", "70b", "405b")},
    **{f"llama4{name}{size}": f"llama-4-{name}" for name, sizes in (("scout", ("17b16e", "109b", "109ba17b")), ("maverick", ("17b128e", "400b", "400ba17b")))
       for size in sizes},
    "kimik21t": "kimi-k2-instruct",
    "kimik21ta32b": "kimi-k2-instruct",
    "deepseekv2lite16b": "deepseek-v2-lite",
    "mistrallarge": "mistral-large-2-123b",
    "mistrallarge2": "mistral-large-2-123b",
    "moonlight": "moonlight-16b-a3b",
    "bertuncased": "bert-base",
    "bloom": "bloom-176b",
    "llama3nemotronsuper49b": "llama-3.3-nemotron-super-49b-v1",
    "llama3.3nemotronsuper49b": "llama-3.3-nemotron-super-49b-v1",
    "llama38b": "llama-3.1-8b",  # torchtitan's flavour 8B: vocabulary 128256
    "llama370b": "llama-3.1-70b",
    "llama3405b": "llama-3.1-405b",
    "llama27b": "llama-2-7b",
    "llama213b": "llama-2-13b",
    "llama270b": "llama-2-70b",
    "deepseekv3671b": "deepseek-v3",
    "deepseekv3671.0b": "deepseek-v3",
    "deepseekv316b": "deepseek-v2-lite",  # torchtitan's 16B flavour has the sizes of V2-Lite
    "deepseekv2236b": "deepseek-v2",
    "deepseekv3.1": "deepseek-v3",
    "gpt3175b": "gpt3-175b",
    "gpt3": "gpt3-175b",
    "gpt2small": "gpt2",
    "mixtral8x7b": "mixtral-8x7b",
    "mistral7b": "mistral-7b",
    "mistral7bv0.2": "mistral-7b",
    "bertlarge": "bert-large",
    "bertlargeuncased": "bert-large",
    "gptj6b": "gpt-j-6b",
    "nemotron4340b": "nemotron-4-340b",
    "llama65b": "llama-65b",
    "llama7b": "llama-7b",
    "phi1.51.3b": "phi-1.5",
    "tinyllama": "tiny-llama-1.1b",
    "phi3mini4k": "phi-3-mini",
    "phi414b": "phi-4",
    "codellama27b": "code-llama-7b",
    "moonlight16b": "moonlight-16b-a3b",
    "nemotron3nano": "nemotron-3-nano-30b-a3b",
    "nemotron3super": "nemotron-3-super-120b-a12b",
    "nemotron3ultra": "nemotron-3-ultra-550b-a55b",
    "nemotron3.5lightning": "nemotron-3.5-lightning-30b-a3b",
}


def essence(name):
    """Letters, digits and points of the last part of a path, without words in brackets behind it."""
    last = re.sub(BEHIND, "", name.split(" (")[0].rsplit("/", 1)[-1], flags=re.IGNORECASE)
    out = "".join(c for c in last if c.isascii() and (c.isalnum() or c == ".")).lower()
    for word in ADDED:
        out = out.replace(word, "", 1)
    return out


def known_model(name):
    """The file of configs/models that a name means; None: none."""
    known = presets.names("models")
    wanted = essence(name)
    for model in known:
        if essence(model) == wanted:
            return model
    alias = ALIASES.get(wanted)
    return alias if alias in known else None


def with_predictions(model):
    """The file of configs/models that has a model with its prediction layers; without one, the model's own."""
    trained = f"{model}-mtp"
    return trained if model and trained in presets.names("models") else model
