"""RM's object tree: clients, handles, parents, and the order in which things are freed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from hcqrt.autogen.nv.status import (
    NV_ERR_INSERT_DUPLICATE_NAME,
    NV_ERR_INVALID_OBJECT,
    NV_ERR_OBJECT_NOT_FOUND,
)
from hcqrt.emu.nv.abi import Refused, class_names
from hcqrt.emu.where import caller

if TYPE_CHECKING:
    from hcqrt.emu.nv.rm.node import CtlFile

FIRST_HANDLE = 0xCAF00000  # what RM hands out when the caller chose none (nv-driver.md §3)
FIRST_CLIENT = 0xC1D00000

R = TypeVar("R", bound="Resource")


class Resource:
    """One object of a client. Subclasses say what freeing means and which parents they take."""

    free_first = False  # channels go before memory, whatever the tree says

    def __init__(self, client: Client, parent: Resource | None, handle: int, number: int) -> None:
        self.client, self.parent, self.handle, self.number = client, parent, handle, number
        self.children: dict[int, Resource] = {}
        self.where = caller()

    @property
    def class_name(self) -> str:
        return class_names().get(self.number, (f"class {self.number:#x}",))[0]

    def free(self) -> None:
        """Let go of what the object holds; its children are gone already."""

    def descendants(self) -> Iterator[Resource]:
        """All below this object, children before their parents."""
        for child in list(self.children.values()):
            yield from child.descendants()
            yield child

    def ancestor(self, kind: type[R]) -> R | None:
        """The nearest object of a kind on the way to the root, this one included."""
        node: Resource | None = self
        while node is not None and not isinstance(node, kind):
            node = node.parent
        return node


class Client(Resource):
    """A client: the root object of a process's handles, bound to the control file that made it."""

    def __init__(self, file: CtlFile, handle: int, number: int) -> None:
        super().__init__(self, None, handle, number)
        self.file = file
        self.objects: dict[int, Resource] = {handle: self}
        self.os_events: set[int] = set()  # fds that NV_ESC_ALLOC_OS_EVENT named
        self._next = FIRST_HANDLE

    def new_handle(self, wanted: int) -> int:
        """The handle of a new object: the caller's choice if it is free, else the next of RM's own."""
        if wanted:
            if wanted in self.objects:
                raise Refused(NV_ERR_INSERT_DUPLICATE_NAME, f"handle {wanted:#x} is in use")
            return wanted
        while self._next in self.objects:
            self._next += 1
        self._next += 1
        return self._next - 1

    def add(self, resource: Resource) -> None:
        assert resource.parent is not None, "only the client itself has no parent"
        self.objects[resource.handle] = resource
        resource.parent.children[resource.handle] = resource

    def find(self, handle: int, kind: type[R], what: str = "object") -> R:
        """The object behind a handle, refused when it is missing or of another kind."""
        resource = self.objects.get(handle)
        if resource is None:
            raise Refused(NV_ERR_OBJECT_NOT_FOUND, f"{what} {handle:#x} does not exist")
        if not isinstance(resource, kind):
            raise Refused(NV_ERR_INVALID_OBJECT, f"{what} {handle:#x} is a {resource.class_name}")
        return resource

    def remove(self, resource: Resource) -> None:
        """Free an object and all below it, channels first."""
        doomed = [*resource.descendants(), resource]
        for item in sorted(doomed, key=lambda node: not node.free_first):
            item.free()
            del self.objects[item.handle]
            if item.parent is not None:
                item.parent.children.pop(item.handle, None)
