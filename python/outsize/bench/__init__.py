"""`outsize bench` and `outsize demo`: one job plainly, under budgets, under swap.

workloads   finds what to run: an example by name, or any script with an optimizer
worker      the process that runs it, one step at a time, on command
runner      starts workers, gives them turns, freezes those whose turn it is not
counter     plain's peak tensor bytes, counted by PyTorch's own profiler
swap        a memory cgroup and a swap file, gone again whatever happens
results     medians, ratios, the limit; the table and the JSON
command     the command line
"""
