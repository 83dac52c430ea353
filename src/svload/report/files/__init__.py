"""Files for other tools and pages: JUnit, Markdown, OpenMetrics, and the order in which all of derived/ is written."""
