"""A model as a graph of primitive operations, with parameters and cost on each node.

read_graph.py      model + inputs → OpGraph; whichever way it can be read
model_ops.py       the operations by torch.export, or by running a copy once
graph_builder.py   which of them are shown, and what ONNX calls them
op_arithmetic.py   FLOPs and bytes of one operation        costed_parts.py  operations and modules with what each costs
origin.py          the double, the fake tensors and the call that a graph is read from
one_more_layer.py  the same model with one more layer      layer_text.py    "Linear(512→256)" as a module
onnx_file.py       the model as an ONNX file
op_graph.py        OpGraph; how it is shown: accel/views/op_graph.py
"""

from __future__ import annotations

from accel.opgraph.costed_parts import OpNode
from accel.opgraph.op_graph import OpGraph
from accel.opgraph.read_graph import read_graph

__all__ = ["OpGraph", "OpNode", "read_graph"]
