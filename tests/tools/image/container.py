"""Runs an OCI layout as a container runtime would, without one: in a root of its own that is read-only, as the user of the image,
without capabilities, and with the network of the machine.

    container.py LAYOUT ROOT [--volume SOURCE:PATH]... [--env NAME=VALUE]... [--print-start] [-- ARGUMENT...]

ROOT is an empty directory for the files of the image. Volumes are read-only; /tmp is in memory. The program replaces this one, so
that signals reach it. Needs Linux, and root or user namespaces.
"""

import argparse
import ctypes
import io
import os
import pathlib
import sys
import tarfile
import time

from image import blob, image

CLONE_NEWNS, CLONE_NEWUSER = 0x0002_0000, 0x1000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 0x1000, 0x4000, 0x4_0000
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 23, 24, 38

LIBC = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    """Calls the system, and fails with its reason."""
    if getattr(LIBC, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}{arguments}: {os.strerror(error)}")


def mount(source, target, kind, flags, data=None):
    """Mounts a file system."""
    as_bytes = [None if text is None else str(text).encode() for text in (source, target, kind)]
    call("mount", *as_bytes, ctypes.c_ulong(flags), None if data is None else data.encode())


def unpack(layout, root):
    """Writes the layers of the image into an empty directory, and returns the image's configuration."""
    _, manifest, config = image(layout)
    root = pathlib.Path(root)
    root.mkdir(parents=True)
    for layer in manifest["layers"]:
        with tarfile.open(fileobj=io.BytesIO(blob(layout, layer))) as archive:
            # Older versions of Python have no filters.
            archive.extraction_filter = getattr(tarfile, "tar_filter", lambda member, _: member)
            archive.extractall(root)
    return config["config"]


def enter_user_namespace(user, group):
    """Enters a user namespace in which the process has this user and group."""
    outside = os.geteuid(), os.getegid()
    call("unshare", CLONE_NEWUSER)
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"{user} {outside[0]} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"{group} {outside[1]} 1")


def mount_root(root, volumes):
    """Makes the directory a read-only root with its volumes."""
    call("unshare", CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount(root, root, None, MS_BIND)
    for source, path in volumes:
        target = root / path.lstrip("/")
        mount(source, target, None, MS_BIND)
        mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    mount("tmpfs", root / "tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=1777")
    mount(None, root, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.chroot(root)
    os.chdir("/")


def drop_privileges(user, group, is_root):
    """Becomes the user, without capabilities, and without a way to get them."""
    capability = 0
    while LIBC.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
        capability += 1
    if is_root:
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def main():
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("layout")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--volume", action="append", default=[])
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--print-start", action="store_true", help="print the monotonic time of the start, in nanoseconds")
    # What follows belongs to the program, whatever it looks like.
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:split])
    config = unpack(options.layout, options.root)
    user, group = (int(number) for number in config["User"].split(":"))
    if user == 0:
        sys.exit("the image runs as root")
    volumes = [volume.split(":") for volume in options.volume]
    for _, path in volumes:
        (options.root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    is_root = os.geteuid() == 0
    if not is_root:
        # The mounts need capabilities, which a namespace of the process's own gives; the user is already that of the image.
        enter_user_namespace(user, group)
    mount_root(options.root.resolve(), volumes)
    drop_privileges(user, group, is_root)
    environment = dict(one.split("=", 1) for one in [*config["Env"], *options.env])
    command = [*config["Entrypoint"], *sys.argv[split + 1 :]]
    if options.print_start:
        print(time.monotonic_ns(), flush=True)
    # The files of this program stay behind.
    os.closerange(3, 1024)
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main()
