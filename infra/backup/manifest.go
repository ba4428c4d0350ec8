// Package backup writes the state of a deployment to one file, while the service runs, and
// restores it to an empty deployment. It depends on databases, a bucket and directory trees, not
// on their meaning: the caller lists them.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"

	"everloop/internal/release"
)

// format is the version of the backup format.
const format = 1

// Names of the first and the last entry of a backup.
const (
	headName     = "backup.json"
	manifestName = "manifest.json"
)

// Head is the first entry: the information that a reader needs first.
type Head struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that wrote it
	Time    time.Time `json:"time"`    // time of the database snapshot: nothing in the backup is older
	// Sealed is a known text, encrypted with the deployment's key, so that a restore with another
	// key is rejected.
	Sealed []byte `json:"sealed,omitempty"`
}

// Manifest is the last entry. A backup without it is truncated.
type Manifest struct {
	Head
	Finished  time.Time           `json:"finished"`
	Parts     []Part              `json:"parts"`
	Databases map[string]Contents `json:"databases"`
}

// Part is a part of a backup, such as a database or a tree of files.
type Part struct {
	Name    string `json:"name"`
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`
	// Digest is the SHA-256 over the names, modes, owners and contents of the entries, in order.
	Digest string `json:"sha256"`
}

// Contents describes the backup of one database.
type Contents struct {
	Schemas   map[string]int64 `json:"schemas"` // versions
	Tables    []Table          `json:"tables"`
	Sequences map[string]int64 `json:"sequences"` // last values
	// Gone are the ids that Database.Live returned at the snapshot but not at the end: their
	// objects and files may be missing from the backup.
	Gone []string `json:"gone"`
}

// Table is a table with the columns of its entries, in order.
type Table struct {
	Schema  string   `json:"schema"`
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
}

// check returns an error for a backup that this program cannot restore.
func (h Head) check() error {
	if h.Format > format {
		return fmt.Errorf("the backup has format %d, written by version %s: this program, %s, knows format %d: use the newer program",
			h.Format, h.Version, release.Version, format)
	}

	if h.Format < 1 {
		return errors.New("the backup is none of Everloop: it does not begin with " + headName)
	}

	wrote, err := release.Parse(h.Version)
	if err != nil {
		return fmt.Errorf("the backup does not say which version wrote it: %w", err)
	}

	own, err := release.Parse(release.Version)
	if err != nil {
		return err
	}

	if wrote.Compare(own) > 0 {
		return fmt.Errorf("the backup was written by version %s, this program is %s: restore it with version %s or newer",
			h.Version, release.Version, h.Version)
	}

	return nil
}

// tally sums up the entries of a part.
type tally struct {
	Part
	sum hash.Hash
}

// tallies contains the parts in the order of their first entries.
type tallies struct {
	list  []*tally
	named map[string]*tally
}

func (t *tallies) of(part string) *tally {
	if found, ok := t.named[part]; ok {
		return found
	}

	if t.named == nil {
		t.named = map[string]*tally{}
	}

	added := &tally{Part: Part{Name: part}, sum: sha256.New()}
	t.named[part] = added
	t.list = append(t.list, added)

	return added
}

func (t *tallies) parts() []Part {
	all := make([]Part, 0, len(t.list))

	for _, one := range t.list {
		one.Digest = hex.EncodeToString(one.sum.Sum(nil))
		all = append(all, one.Part)
	}

	return all
}

// partOf returns the part of an entry: the first two segments of its name, such as
// files/workspace; the first of objects.
func partOf(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	if first == objectsPart {
		return first
	}

	second, _, _ := strings.Cut(rest, "/")

	return first + "/" + second
}
