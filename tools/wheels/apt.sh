# Sourced by the scripts that make and try wheels, which set `work`: their folder.
mirror=${KITH_DEBIAN_MIRROR:-http://deb.debian.org/debian}
key=/usr/share/keyrings/debian-archive-keyring.gpg

# apt with lists and a cache of its own; nothing is installed.
own_apt() {
  local own=$work/apt
  mkdir -p "$own"/{lists,archives}/partial
  if [[ ! -f $own/sources.list ]]; then
    for suite in bullseye bookworm trixie; do echo "deb [signed-by=$key] $mirror $suite main"; done >"$own/sources.list"
    echo "deb-src [signed-by=$key] $mirror bookworm main" >>"$own/sources.list"
  fi
  apt-get -q -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 \
    -o APT::Sandbox::User=root -o Dir::State::Lists="$own/lists" -o Dir::State::Status=/dev/null -o Dir::Cache="$own" \
    -o Dir::Etc::SourceList="$own/sources.list" -o Dir::Etc::SourceParts=- "$@"
}
