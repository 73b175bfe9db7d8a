"""Function transforms need optree, which a machine that is lent for a GPU session may not have."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("optree") else ["test_*.py"]
