"""Methods: one file each, found by the registry."""

from dwcl.methods.base import DeepMultiViewClusterer
from dwcl.methods.registry import get_method, methods

__all__ = ["DeepMultiViewClusterer", "get_method", "methods"]
