"""The largest load that meets a criterion: its next levels, and its conclusions (docs/method.md §4). Pure."""
