#!/usr/bin/env bash
# Packs a program for a release: with its license, its changes, and completions for shells, if it prints them. Equal inputs give equal
# archives. Prints the name of the archive, beside which its checksum is.
#
#   archive.sh PROGRAM TARGET OUTPUT [RUNNER]...
#
# PROGRAM is a file, TARGET the platform that it was built for. RUNNER runs a program of another platform.
set -euo pipefail
[[ $# -ge 3 ]] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "$1") target=$2 output=$3
name=$(basename "$program")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
archive=$name-$version-$target

mkdir -p "$output"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/$archive"
cp "$program" "$root/LICENSE" "$root/CHANGELOG.md" "$folder/$archive"
readme=$root/README.md
if [[ $name == vmcp ]]; then
    mkdir "$folder/$archive/completions"
    for shell in bash elvish fish zsh; do
        "${@:4}" "$program" completion "$shell" > "$folder/$archive/completions/vmcp.$shell"
    done
else
    readme=$root/operator/controller/README.md
fi
cp "$readme" "$folder/$archive/README.md"
chmod -R u=rwX,go=rX "$folder/$archive"
tar --create --sort=name --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner \
    --directory "$folder" "$archive" | gzip --no-name --best > "$output/$archive.tar.gz"
(cd "$output" && sha256sum "$archive.tar.gz" > "$archive.tar.gz.sha256")
echo "$archive.tar.gz"
