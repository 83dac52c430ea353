"""Processes: started with limits, or forked for work; and folders that exist as long as a process."""
