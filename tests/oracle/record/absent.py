"""Stands for packages that a framework imports and a recorded step never uses: readers of data sets, writers of logs."""
import importlib.abc
import importlib.machinery
import sys
import types


class Absent(types.ModuleType):
    """A module every name of which is a class without behaviour."""
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
        setattr(self, name, value)
        return value


def stand_in(*names):
    for name in names:
        module = sys.modules[name] = Absent(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        parent, _, child = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)


class Packages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of some packages, however deep, as one without behaviour."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.names else None

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


def stand_in_packages(*names):
    """As `stand_in`, with whatever modules these packages have."""
    sys.meta_path.insert(0, Packages(names))
