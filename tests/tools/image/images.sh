#!/usr/bin/env bash
# Builds the images of the server and the operator, without a container engine.
#
#   images.sh programs TARGET_DIRECTORY           builds both programs for images: static, without paths of this machine
#   images.sh layouts TARGET_DIRECTORY OUTPUT     builds both images from them, as OCI layouts OUTPUT/vmcp and OUTPUT/vmcp-operator
#   images.sh roots TARGET_DIRECTORY OUTPUT       writes the files of both images, for the Containerfiles
#   images.sh reproducible OUTPUT                 builds everything twice, and compares the digests
#   images.sh bills OUTPUT                        writes the bills of materials of both programs, as OUTPUT/PROGRAM.cdx.json
#   images.sh features PROGRAM                    prints the options of cargo for the features of a program
set -euo pipefail
cd "$(dirname "$0")/../../.."

# The time of all files of the images is that of the commit.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 0)}

# Features of the server for pods, without those of its demo.
server_features=kubernetes
declare -A features=([vmcp]="--no-default-features --features $server_features" [vmcp-operator]="")
platform=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
declare -A ports=([vmcp]="--port 4483 --port 4485" [vmcp-operator]="--port 8080 --port 9443")

programs() {
    # The platform is named, so that the flags do not apply to build scripts and macros. The paths, which messages of panics and
    # assertions contain, are the same on each machine.
    local cargo_home=${CARGO_HOME:-$HOME/.cargo}
    local map="$PWD=/vmcp $1=/target $cargo_home=/cargo"
    local flags="-C target-feature=+crt-static" c_flags=""
    for pair in $map; do
        flags+=" --remap-path-prefix=$pair"
        c_flags+=" -ffile-prefix-map=$pair"
    done
    for program in "${!ports[@]}"; do
        # shellcheck disable=SC2086 # several options
        RUSTFLAGS=$flags CFLAGS=$c_flags CARGO_TARGET_DIR=$1 CARGO_INCREMENTAL=0 \
            cargo build --release --locked --target "$platform" --package "$program" ${features[$program]}
        strip --strip-all "$1/$platform/release/$program" -o "$1/$platform/release/$program.stripped"
        mkdir -p "$1/programs"
        mv "$1/$platform/release/$program.stripped" "$1/programs/$program"
    done
    # The operator starts the server with --virtual-mcp-server, which needs the feature.
    if ! "$1/programs/vmcp" version --output json | grep -q '"kubernetes"'; then
        echo "the server was built without the feature kubernetes" >&2
        exit 1
    fi
}

bills() {
    for program in "${!ports[@]}"; do
        # shellcheck disable=SC2086 # several options
        python3 tests/tools/sbom.py "$program" "$platform" ${features[$program]} > "$1/$program.cdx.json"
    done
}

layouts() {
    for program in vmcp vmcp-operator; do
        rm -rf "${2:?}/$program"
        # shellcheck disable=SC2086 # several options
        python3 tests/tools/image/image.py build --program "$1/programs/$program" --title "$program" \
            --version "$version" --output "$2/$program" ${ports[$program]}
    done
}

roots() {
    for program in vmcp vmcp-operator; do
        python3 tests/tools/image/image.py root --program "$1/programs/$program" --output "$2/$program"
    done
}

reproducible() {
    for build in first second; do
        programs "$(absolute "$1/target-$build")"
        layouts "$1/target-$build" "$1/$build" > "$1/$build.txt"
        cat "$1/$build.txt"
    done
    if ! diff "$1/first.txt" "$1/second.txt"; then
        echo "the builds differ" >&2
        exit 1
    fi
    echo "both builds have the same digests"
}

# Returns the absolute path of a directory, which it creates: paths are mapped by it.
absolute() { mkdir -p "$1" && (cd "$1" && pwd); }

case "${1-} $#" in
    "programs 2") programs "$(absolute "$2")" ;;
    "layouts 3" | "roots 3") "$1" "$(absolute "$2")" "$(absolute "$3")" ;;
    "reproducible 2" | "bills 2") "$1" "$(absolute "$2")" ;;
    "features 2") echo "${features[$2]}" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
