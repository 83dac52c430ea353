"""How the system's Chromium is started: no sandbox (tests may run as root), no traffic of its own."""

ARGUMENTS = ["--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-sync"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update"]
