"""The largest load that keeps a criterion: which level is measured next, and what the levels
say (docs/method.md §4). Pure."""
