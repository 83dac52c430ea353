"""Files for other tools and pages: JUnit, Markdown, OpenMetrics, and the code that writes all of derived/ in
order."""
