"""Device descriptions as frozen classes, and the views that passes ask (device spec sections 1 and 3)."""

from dfsched.architecture.architecture import Architecture, Instances, Scope, element_name
from dfsched.architecture.builder import DeviceBuilder, GroupBuilder
from dfsched.architecture.description import Description, Timing
from dfsched.architecture.features import (
    Access,
    AddressBuffer,
    Features,
    Queue,
    RegisterFile,
    Simd,
    Transfer,
    fit_access,
)
from dfsched.architecture.kinds import Kind, kind_text
from dfsched.architecture.memory_tree import MemoryNode, MemoryTree
from dfsched.architecture.resources import Datapath, Endpoint, Group, Memory, Resource, Switch, Unit
from dfsched.architecture.routing import Hop, NodeClass, Route, RoutingEdge, RoutingGraph, RoutingNode
from dfsched.architecture.tracker import MemoryTracker

__all__ = [
    "Access",
    "AddressBuffer",
    "Architecture",
    "Datapath",
    "Description",
    "DeviceBuilder",
    "Endpoint",
    "Features",
    "Group",
    "GroupBuilder",
    "Hop",
    "Instances",
    "Kind",
    "Memory",
    "MemoryNode",
    "MemoryTracker",
    "MemoryTree",
    "NodeClass",
    "Queue",
    "RegisterFile",
    "Resource",
    "Route",
    "RoutingEdge",
    "RoutingGraph",
    "RoutingNode",
    "Scope",
    "Simd",
    "Switch",
    "Timing",
    "Transfer",
    "Unit",
    "element_name",
    "fit_access",
    "kind_text",
]
