"""A case as a recorder reads it: the job's sizes by name, and the options that only the framework has."""
import types


class Case:
    def __init__(self, stated):
        self.name, self.rank, self.options = stated["name"], stated["rank"], stated["options"]
        self.model = types.SimpleNamespace(**stated["model"])
        self.memory, self.parallelism = stated["memory"], stated["parallelism"]
        for size, value in stated["sizes"].items():  # world, sequence, micro_batch, accumulate, data, tensor, pipeline...
            setattr(self, size, value)
        self.recompute = self.memory.get("recompute", "none")
        self.used = set()

    def option(self, name, default=None):
        self.used.add(name)
        return self.options.get(name, default)

    def check_options(self):
        """An option that no recorder reads is a spelling mistake."""
        unread = sorted(set(self.options) - self.used)
        if unread:
            raise ValueError(f"{self.name}: options that are not read: {', '.join(unread)}")
