"""The largest load that meets a criterion: the choice of the next level, and the conclusions from the levels
(docs/method.md §4). Pure."""
