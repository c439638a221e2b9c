"""`outsize pilot`: the paths of recorded runs, how well they are foreseen, and what can be learnt of them.

collect     `outsize pilot collect`: records runs to learn from
command     the command line: a table of commands, a module each
evaluate    `outsize pilot eval`: the pilot and its controls on recorded runs
graph       `outsize pilot graph`: the blocks that a recorded run consists of
graph_forms the same as Graphviz, Mermaid and JSON
idioms      what blocks and networks do with memory, as it is told
model       saved models, as programs and other commands name them
paths       what eval and graph ask of the compiled simulator
show        `outsize pilot show`: what a model has learnt, and from what
train       `outsize pilot train`: a model from recorded runs
"""
