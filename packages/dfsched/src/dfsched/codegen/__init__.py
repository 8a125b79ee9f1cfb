"""Code generation: DataflowIR files to a device image and a SpyreCode artefact."""

from dfsched.codegen.build import BuiltImage, build_image, labels
from dfsched.codegen.errors import CodegenError
from dfsched.codegen.generate import Generated, generate
from dfsched.codegen.launch import LaunchPlan, launch_plan

__all__ = [
    "BuiltImage",
    "CodegenError",
    "Generated",
    "LaunchPlan",
    "build_image",
    "generate",
    "labels",
    "launch_plan",
]
