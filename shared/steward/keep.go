package steward

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/store"
)

// PageSize is how many node records stand in one document: those of indices 0 to 199 on page 0, and so on.
const PageSize = 200

// The formats of a document, told by its first byte. A reader knows all that were ever written.
const (
	formatJSON = 1
	formatGzip = 2 // gzip of JSON
)

// plainLimit is the size below which a document is not worth compressing, and is left for people to read: the record of
// a cluster of a few pools.
const plainLimit = 16 << 10

// largest bounds what a document may unpack to: far more than any cluster needs, and less than a process can bear.
const largest = 256 << 20

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if len(data) < plainLimit {
		b.WriteByte(formatJSON)
		b.Write(data)
		return b.Bytes(), nil
	}
	b.WriteByte(formatGzip)
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decode(data []byte, v any) error {
	if len(data) == 0 {
		return errors.New("the document is empty")
	}
	switch data[0] {
	case formatJSON:
		return json.Unmarshal(data[1:], v)
	case formatGzip:
		r, err := gzip.NewReader(bytes.NewReader(data[1:]))
		if err != nil {
			return err
		}
		plain, err := io.ReadAll(io.LimitReader(r, largest))
		if err != nil {
			return err
		}
		return json.Unmarshal(plain, v)
	}
	return fmt.Errorf("the document is of format %d, which this version does not know", data[0])
}

// keeper holds a cluster's state in memory next to what its documents hold, so that a commit carries just what has
// changed.
type keeper struct {
	state *cluster.State
	// As in the store: the encoded record and pools, and the node records of each page.
	record []byte
	pools  map[string][]byte
	pages  map[page][]cluster.Node
}

type page struct {
	pool   string
	number int
}

func (p page) path() string { return "nodes/" + p.pool + "-" + strconv.Itoa(p.number) }

func parsePage(name string) (page, error) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return page{}, fmt.Errorf("%q is not a page of nodes", name)
	}
	n, err := strconv.Atoi(name[at+1:])
	if err != nil || n < 0 {
		return page{}, fmt.Errorf("%q is not a page of nodes", name)
	}
	return page{pool: name[:at], number: n}, nil
}

// load reads a cluster from its documents.
func (k *keeper) load(key cluster.Key, data []byte, docs store.Documents) error {
	*k = keeper{state: cluster.NewState(key), record: data, pools: map[string][]byte{}, pages: map[page][]cluster.Node{}}
	if !isEmpty(data) {
		if err := decode(data, &k.state.Record); err != nil {
			return fmt.Errorf("reading the document of cluster %s, %w", key, err)
		}
	}
	for path, doc := range docs {
		collection, name, _ := strings.Cut(path, "/")
		switch collection {
		case "pools":
			var p cluster.Pool
			if err := decode(doc, &p); err != nil {
				return fmt.Errorf("reading %s of cluster %s, %w", path, key, err)
			}
			k.state.Pools[name], k.pools[name] = &p, doc
		case "nodes":
			pg, err := parsePage(name)
			if err != nil {
				return fmt.Errorf("reading cluster %s, %w", key, err)
			}
			var nodes []cluster.Node
			if err := decode(doc, &nodes); err != nil {
				return fmt.Errorf("reading %s of cluster %s, %w", path, key, err)
			}
			k.pages[pg] = nodes
		}
	}
	for _, pg := range k.sortedPages() {
		k.state.Nodes[pg.pool] = append(k.state.Nodes[pg.pool], k.pages[pg]...)
	}
	return nil
}

func (k *keeper) sortedPages() []page {
	pages := make([]page, 0, len(k.pages))
	for pg := range k.pages {
		pages = append(pages, pg)
	}
	slices.SortFunc(pages, func(a, b page) int {
		if c := strings.Compare(a.pool, b.pool); c != 0 {
			return c
		}
		return a.number - b.number
	})
	return pages
}

// loadSlurm reads the newest snapshot.
func (k *keeper) loadSlurm(ctx context.Context, st store.Store) error {
	kept, err := st.Slurm(ctx, k.state.Key)
	if errors.Is(err, store.ErrNotFound) {
		k.state.Slurm = nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the snapshot of Slurm of cluster %s, %w", k.state.Key, err)
	}
	var wire events.SlurmSnapshot
	if err := decode(kept.Data, &wire); err != nil {
		return fmt.Errorf("reading the snapshot of Slurm of cluster %s, %w", k.state.Key, err)
	}
	if k.state.Slurm, err = wire.Model(); err != nil {
		return fmt.Errorf("reading the snapshot of Slurm of cluster %s, %w", k.state.Key, err)
	}
	return nil
}

// change puts what has changed since the last commit into a change, and takes it as written.
func (k *keeper) change(c *store.Change) error {
	record, err := encode(&k.state.Record)
	if err != nil {
		return err
	}
	if !bytes.Equal(record, k.record) {
		c.Cluster, k.record = record, record
	}
	c.Put = store.Documents{}
	for id, p := range k.state.Pools {
		doc, err := encode(p)
		if err != nil {
			return err
		}
		if !bytes.Equal(doc, k.pools[id]) {
			c.Put["pools/"+id], k.pools[id] = doc, doc
		}
	}
	for id := range k.pools {
		if k.state.Pools[id] == nil {
			c.Delete = append(c.Delete, "pools/"+id)
			delete(k.pools, id)
		}
	}
	return k.changePages(c)
}

func (k *keeper) changePages(c *store.Change) error {
	current := map[page]bool{}
	for pool, nodes := range k.state.Nodes {
		for len(nodes) > 0 {
			pg := page{pool: pool, number: nodes[0].Index / PageSize}
			end := 0
			for end < len(nodes) && nodes[end].Index/PageSize == pg.number {
				end++
			}
			current[pg] = true
			if !slices.Equal(nodes[:end], k.pages[pg]) {
				doc, err := encode(nodes[:end])
				if err != nil {
					return err
				}
				c.Put[pg.path()], k.pages[pg] = doc, slices.Clone(nodes[:end])
			}
			nodes = nodes[end:]
		}
	}
	for pg := range k.pages {
		if !current[pg] {
			c.Delete = append(c.Delete, pg.path())
			delete(k.pages, pg)
		}
	}
	slices.Sort(c.Delete)
	return nil
}

// summary is what lists show of the cluster.
func (k *keeper) summary() store.Summary {
	s := store.Summary{Phase: k.state.Phase, UID: k.state.UID, Created: k.state.Created}
	for _, nodes := range k.state.Nodes {
		for i := range nodes {
			if nodes[i].Phase.Machine() {
				s.Nodes++
			}
		}
	}
	if k.state.Problem != nil {
		s.Problem = k.state.Problem.Message
	}
	return s
}
