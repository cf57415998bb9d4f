"""Storage: models and runs on disk."""

from dwcl.storage.model import load_model, save_model
from dwcl.storage.run import read_run, write_run

__all__ = ["load_model", "read_run", "save_model", "write_run"]
