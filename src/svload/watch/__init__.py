"""Monitors: what was the machine, and each server, doing?"""
