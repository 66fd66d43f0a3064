#!/usr/bin/env bash
# Puts the documentation of several versions into one site. `make docs` must have built target/site before.
#
#   scripts/docs_versions.sh                  target/pages: target/site as dev/, each release as X.Y.Z/, and a list of them
#   scripts/docs_versions.sh archive vX.Y.Z   target/framespool-docs-X.Y.Z.tar.gz from target/site, for the release page
#                                             (release candidates are not in the site)
#
# The sites of releases are the archives framespool-docs-*.tar.gz in target/docs-archives. If GH_TOKEN is set, the program gh
# downloads them from the release pages first.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f target/site/index.html ] || { echo "docs_versions: no target/site; run make docs first" >&2; exit 2; }

if [ "${1:-}" = archive ]; then
  name=${2#v}
  # A rehearsal of a release has the name of its branch.
  tar --sort=name --owner=0 --group=0 --numeric-owner -C target/site -czf "target/framespool-docs-${name//\//-}.tar.gz" .
  exit
fi

archives=target/docs-archives pages=target/pages
if [ -n "${GH_TOKEN:-}" ]; then
  rm -rf $archives
  for tag in $(gh release list --exclude-drafts --exclude-pre-releases --limit 100 --json tagName --jq '.[].tagName'); do
    # A release without documentation is omitted.
    gh release download "$tag" --pattern 'framespool-docs-*.tar.gz' --dir $archives || echo "docs_versions: no archive at $tag" >&2
  done
fi

rm -rf $pages
mkdir -p $pages $archives
cp -r target/site $pages/dev
for archive in $archives/framespool-docs-*.tar.gz; do
  [ -e "$archive" ] || continue
  name=$(basename "$archive" .tar.gz)
  mkdir "$pages/${name#framespool-docs-}"
  tar -xzf "$archive" -C "$pages/${name#framespool-docs-}"
done

# Newest release first. The front page leads to it, or to dev/ before the first release.
versions=$(cd $pages && find . -mindepth 1 -maxdepth 1 -type d ! -name dev -printf '%f\n' | sort -rV)
newest=${versions%%$'\n'*}
cat >$pages/index.html <<HTML
<!doctype html><meta charset="utf-8"><title>framespool</title>
<meta http-equiv="refresh" content="0; url=${newest:-dev}/index.html"><a href="${newest:-dev}/index.html">framespool</a>
HTML
{
  echo '<!doctype html><meta charset="utf-8"><title>Versions of framespool</title><h1>Versions</h1><ul>'
  for version in $versions dev; do
    echo "<li><a href=\"$version/index.html\">$version</a></li>"
  done
  echo '</ul>'
} >$pages/versions.html
echo "docs_versions: $pages has" $versions dev
