"""`outsize pilot`: the paths of recorded runs, and how well they are foreseen.

command     the command line: a table of commands, a module each
evaluate    `outsize pilot eval`: the pilot and its controls on recorded runs
graph       `outsize pilot graph`: the blocks that a recorded run consists of
graph_forms the same as Graphviz, Mermaid and JSON
paths       what both ask of the compiled simulator
"""
