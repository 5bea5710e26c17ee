package gcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// wire is an answer's body.
type wire []byte

func encode(m proto.Message) (wire, error) {
	out, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s, %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return out, nil
}

// row is one resource in a list answer.
type row struct {
	key     string
	message proto.Message
	cache   *[]byte // the message, encoded, kept until it changes; or nil
}

func (r row) encode() (wire, error) {
	if r.cache != nil && *r.cache != nil {
		return *r.cache, nil
	}
	out, err := encode(r.message)
	if err == nil && r.cache != nil {
		*r.cache = out
	}
	return out, err
}

const maxPage = 500

// list answers a Compute Engine list request: what the filter lets through,
// in order, a page at a time.
func (s *Server) list(c *call, kind string, rows []row) (wire, error) {
	rows, next, err := s.page(c, rows)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	id := strings.TrimPrefix(c.r.URL.Path, "/compute/v1/")
	fmt.Fprintf(&b, `{"kind":%q,"id":%q,"selfLink":%q`, kind, id, "https://www.googleapis.com/compute/v1/"+id)
	if len(rows) > 0 {
		if err := appendItems(&b, "items", rows); err != nil {
			return nil, err
		}
	}
	appendNext(&b, next)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// page applies filter, orderBy, pageToken and maxResults, and what faults say
// is left out.
func (s *Server) page(c *call, rows []row) (page []row, next string, err error) {
	rows = s.faults.omit(c.route.name, rows)
	if rows, err = filtered(rows, c.query.Get("filter")); err != nil {
		return nil, "", err
	}
	if err := orderRows(rows, c.query.Get("orderBy")); err != nil {
		return nil, "", err
	}
	size, err := pageSize(c.query.Get("maxResults"))
	if err != nil {
		return nil, "", err
	}
	return cutPage(rows, c.query.Get("pageToken"), size)
}

func filtered(rows []row, expression string) ([]row, error) {
	if expression == "" {
		return rows, nil
	}
	keep, err := parseFilter(expression)
	if err != nil {
		return nil, invalidField("filter", expression, "Invalid list filter expression: "+err.Error()+".")
	}
	var out []row
	for _, r := range rows {
		ok, err := keep(r.message)
		if err != nil {
			return nil, invalidField("filter", expression, "Invalid list filter expression: "+err.Error()+".")
		}
		if ok {
			out = append(out, r)
		}
	}
	return out, nil
}

func orderRows(rows []row, by string) error {
	switch by {
	case "", "name":
		return nil // as they are
	case "creationTimestamp desc":
		slices.SortStableFunc(rows, func(a, b row) int {
			x, _, _ := fieldValue(a.message.ProtoReflect(), []string{"creationTimestamp"})
			y, _, _ := fieldValue(b.message.ProtoReflect(), []string{"creationTimestamp"})
			return strings.Compare(y, x)
		})
		return nil
	}
	return invalidField("orderBy", by, "Only 'name' and 'creationTimestamp desc' are supported.")
}

func pageSize(text string) (int, error) {
	if text == "" {
		return maxPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxPage {
		return 0, invalidField("maxResults", text, fmt.Sprintf("Must be between 0 and %d, inclusive.", maxPage))
	}
	if n == 0 {
		return maxPage, nil
	}
	return n, nil
}

// cutPage begins after the row that the token names. A row that has gone in
// the meantime loses no other and repeats none, when rows are ordered by key.
func cutPage(rows []row, token string, size int) (page []row, next string, err error) {
	if token != "" {
		last, err := base64.URLEncoding.DecodeString(token)
		if err != nil {
			return nil, "", invalidField("pageToken", token, "Invalid page token.")
		}
		from := slices.IndexFunc(rows, func(r row) bool { return r.key == string(last) }) + 1
		if from == 0 {
			from, _ = slices.BinarySearchFunc(rows, string(last), func(r row, key string) int { return strings.Compare(r.key, key) })
		}
		rows = rows[from:]
	}
	if len(rows) <= size {
		return rows, "", nil
	}
	return rows[:size], base64.URLEncoding.EncodeToString([]byte(rows[size-1].key)), nil
}

func appendItems(b *bytes.Buffer, field string, rows []row) error {
	fmt.Fprintf(b, `,%q:[`, field)
	for i, r := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		item, err := r.encode()
		if err != nil {
			return err
		}
		b.Write(item)
	}
	b.WriteByte(']')
	return nil
}

func appendNext(b *bytes.Buffer, token string) {
	if token == "" {
		return
	}
	text, _ := json.Marshal(token) // a string always encodes
	b.WriteString(`,"nextPageToken":`)
	b.Write(text)
}

// aggregated answers a list request over all zones: each zone with what is in
// it, or the warning that it has nothing on this page. A zone that a fault
// makes unreachable is named as such.
func (s *Server) aggregated(c *call, kind, field string, rows []row) (wire, error) {
	lost := s.faults.unreachable(c.route.name)
	rows = slices.DeleteFunc(rows, func(r row) bool { return slices.Contains(lost, zoneOf(r.key)) })
	rows, next, err := s.page(c, rows)
	if err != nil {
		return nil, err
	}
	byZone := map[string][]row{}
	for _, r := range rows {
		byZone[zoneOf(r.key)] = append(byZone[zoneOf(r.key)], r)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":%q,"id":%q,"items":{`, kind, strings.TrimPrefix(c.r.URL.Path, "/compute/v1/"))
	for i, zone := range sortedKeys(s.regionOf) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"zones/%s":{`, zone)
		if err := appendScope(&b, zone, field, byZone[zone], slices.Contains(lost, zone)); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	if len(lost) > 0 {
		scopes, _ := json.Marshal(lost) // strings always encode
		fmt.Fprintf(&b, `,"unreachables":%s`, scopes)
	}
	appendNext(&b, next)
	b.WriteByte('}')
	return b.Bytes(), nil
}

func appendScope(b *bytes.Buffer, zone, field string, rows []row, lost bool) error {
	switch {
	case lost:
		fmt.Fprintf(b, `"warning":{"code":"UNREACHABLE","message":"The zone '%s' cannot be reached.","data":[{"key":"scope","value":"zones/%s"}]}}`, zone, zone)
		return nil
	case len(rows) == 0:
		fmt.Fprintf(b, `"warning":{"code":"NO_RESULTS_ON_PAGE","message":"There are no results for scope 'zones/%s' on this page.","data":[{"key":"scope","value":"zones/%s"}]}}`, zone, zone)
		return nil
	}
	var items bytes.Buffer
	if err := appendItems(&items, field, rows); err != nil {
		return err
	}
	b.Write(items.Bytes()[1:]) // without the comma before it
	b.WriteByte('}')
	return nil
}

// listOf is a list answer that says nothing of itself.
func listOf(field string, rows []row, next string) (wire, error) {
	var b bytes.Buffer
	if err := appendItems(&b, field, rows); err != nil {
		return nil, err
	}
	appendNext(&b, next)
	b.WriteByte('}')
	out := b.Bytes()
	out[0] = '{' // in place of the comma that sets an item apart from what precedes it
	return out, nil
}
