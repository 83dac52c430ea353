"""Processes: started within limits, forked for work, and folders that live as long as one."""
