"""Losses: pure functions of tensors that return unreduced values, one file per family."""

from dwcl.losses.infonce import infonce
from dwcl.losses.reconstruction import reconstruction

__all__ = ["infonce", "reconstruction"]
