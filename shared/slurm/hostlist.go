package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/convoke-hpc/convoke/shared/cluster"
)

// MaxHosts is how many names one hostlist may stand for. A hostlist is short however many names it means
// (a[0-999999999]), so the number is checked before anything is expanded.
const MaxHosts = 100_000

const (
	maxHostName = 253 // a DNS name's length
	maxDigits   = 15  // fits an int, and no node is numbered beyond it
)

// ExpandHostlist is the names that a Slurm hostlist expression stands for, in the order written: "c1-a3u-[0-1,07],x" is
// c1-a3u-0, c1-a3u-1, c1-a3u-07, x. A range is padded with zeros to the width of its first number; several bracket
// groups multiply, the last one running fastest; text may follow a group. The empty expression stands for no names.
func ExpandHostlist(expression string) ([]string, error) {
	elements, total, err := parseHostlist(expression)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, total)
	for _, e := range elements {
		names = e.expand(names)
	}
	return names, nil
}

// CompressHostlist is the shortest expression for a set of names in the form that scontrol prints: sorted by prefix and
// then by number, each name once, runs of numbers as ranges. Names that differ in zero padding stay apart.
func CompressHostlist(names []string) string {
	hosts := make([]host, len(names))
	for i, name := range names {
		hosts[i] = splitHost(name)
	}
	slices.SortFunc(hosts, func(a, b host) int {
		return cmp.Or(strings.Compare(a.prefix, b.prefix), cmp.Compare(len(a.digits), 0)-cmp.Compare(len(b.digits), 0),
			cmp.Compare(a.number, b.number), cmp.Compare(len(a.digits), len(b.digits)))
	})
	hosts = slices.Compact(hosts)
	var out hostlistWriter
	for from := 0; from < len(hosts); {
		to := from + 1
		for to < len(hosts) && hosts[to].prefix == hosts[from].prefix && (hosts[to].digits == "") == (hosts[from].digits == "") {
			to++
		}
		out.group(hosts[from].prefix, hosts[from:to])
		from = to
	}
	return out.String()
}

// Nodes is the nodes of one cluster that a hostlist stands for, and the names in it that are not that cluster's nodes, both
// in the order written. Ten thousand nodes in one range cost no string each.
func Nodes(clusterID, expression string) (nodes []cluster.NodeID, foreign []string, err error) {
	elements, total, err := parseHostlist(expression)
	if err != nil {
		return nil, nil, err
	}
	nodes = make([]cluster.NodeID, 0, total)
	var names []string
	for _, e := range elements {
		if pool, ok := e.pool(clusterID); ok {
			for _, r := range e.groups[0] {
				for n := r.low; n <= r.high; n++ {
					nodes = append(nodes, cluster.NodeID{Pool: pool, Index: n})
				}
			}
			continue
		}
		names = e.expand(names[:0])
		for _, name := range names {
			if id, node, ok := cluster.ParseNodeName(name); ok && id == clusterID {
				nodes = append(nodes, node)
			} else {
				foreign = append(foreign, name)
			}
		}
	}
	return nodes, foreign, nil
}

// HostlistOf is the hostlist of some nodes of one cluster, sorted by pool and index, each node once.
func HostlistOf(clusterID string, nodes []cluster.NodeID) string {
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b cluster.NodeID) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), cmp.Compare(a.Index, b.Index))
	})
	sorted = slices.Compact(sorted)
	var out hostlistWriter
	for from := 0; from < len(sorted); {
		to := from
		var hosts []host
		for ; to < len(sorted) && sorted[to].Pool == sorted[from].Pool; to++ {
			hosts = append(hosts, host{number: sorted[to].Index, digits: strconv.Itoa(sorted[to].Index)})
		}
		out.group(clusterID+"-"+sorted[from].Pool+"-", hosts)
		from = to
	}
	return out.String()
}

// host is a name taken apart: number and digits are those at its end, if there are any.
type host struct {
	prefix string
	number int
	digits string
}

func splitHost(name string) host {
	at := len(name)
	for at > 0 && isDigit(name[at-1]) {
		at--
	}
	digits := name[at:]
	if digits == "" || len(digits) > maxDigits {
		return host{prefix: name}
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return host{prefix: name}
	}
	return host{prefix: name[:at], number: n, digits: digits}
}

// hostlistWriter writes expressions, one prefix after the other.
type hostlistWriter struct{ strings.Builder }

// group writes the hosts of one prefix, which are sorted and different.
func (w *hostlistWriter) group(prefix string, hosts []host) {
	if w.Len() > 0 {
		w.WriteByte(',')
	}
	w.WriteString(prefix)
	if len(hosts) == 1 {
		w.WriteString(hosts[0].digits)
		return
	}
	w.WriteByte('[')
	for i := 0; i < len(hosts); {
		if i > 0 {
			w.WriteByte(',')
		}
		end := i
		for end+1 < len(hosts) && hosts[end+1].number == hosts[end].number+1 && hosts[end+1].digits == pad(hosts[end+1].number, len(hosts[i].digits)) {
			end++
		}
		w.WriteString(hosts[i].digits)
		if end > i {
			w.WriteByte('-')
			w.WriteString(hosts[end].digits)
		}
		i = end + 1
	}
	w.WriteByte(']')
}

// element is one part of an expression between commas: texts[0] groups[0] texts[1] groups[1] … texts[n].
type element struct {
	texts  []string
	groups [][]numbers
}

// numbers is a range within a bracket group; width is that of its first number as written.
type numbers struct{ low, high, width int }

// pool is the pool of an element whose names are all nodes of a cluster, when that can be seen without expanding it.
func (e element) pool(clusterID string) (string, bool) {
	if len(e.groups) != 1 || e.texts[1] != "" || !strings.HasSuffix(e.texts[0], "-") {
		return "", false
	}
	for _, r := range e.groups[0] {
		if r.high > cluster.MaxIndex || (r.width > 1 && r.width > len(strconv.Itoa(r.low))) {
			return "", false
		}
	}
	id, node, ok := cluster.ParseNodeName(e.texts[0] + "0")
	return node.Pool, ok && id == clusterID
}

func (e element) expand(names []string) []string {
	return e.expandFrom(names, "", 0)
}

func (e element) expandFrom(names []string, before string, at int) []string {
	before += e.texts[at]
	if at == len(e.groups) {
		return append(names, before)
	}
	for _, r := range e.groups[at] {
		for n := r.low; n <= r.high; n++ {
			names = e.expandFrom(names, before+pad(n, r.width), at+1)
		}
	}
	return names
}

// count is how many names an element stands for; anything above MaxHosts is only known to be too many.
func (e element) count() int {
	total := 1
	for _, g := range e.groups {
		sum := 0
		for _, r := range g {
			sum = min(sum+r.high-r.low+1, MaxHosts+1)
		}
		total = min(total*sum, MaxHosts+1)
	}
	return total
}

// longest bounds the length of the element's names.
func (e element) longest() int {
	length := 0
	for _, t := range e.texts {
		length += len(t)
	}
	for _, g := range e.groups {
		widest := 0
		for _, r := range g {
			widest = max(widest, r.width, len(strconv.Itoa(r.high)))
		}
		length += widest
	}
	return length
}

// hostlistParser reads an expression from left to right.
type hostlistParser struct {
	text string
	at   int
}

func parseHostlist(expression string) (elements []element, total int, err error) {
	if expression == "" {
		return nil, 0, nil
	}
	p := hostlistParser{text: expression}
	for {
		e, err := p.element()
		if err != nil {
			return nil, 0, err
		}
		total += e.count()
		if total > MaxHosts {
			return nil, 0, fmt.Errorf("hostlist %s stands for more than %d names", shorten(expression), MaxHosts)
		}
		elements = append(elements, e)
		if !p.take(',') {
			break
		}
	}
	if p.at < len(p.text) {
		return nil, 0, p.errorf("a name cannot contain %q", p.text[p.at])
	}
	return elements, total, nil
}

func (p *hostlistParser) element() (element, error) {
	begin := p.at
	e := element{texts: []string{p.plain()}}
	for p.take('[') {
		g, err := p.group()
		if err != nil {
			return element{}, err
		}
		e.groups = append(e.groups, g)
		e.texts = append(e.texts, p.plain())
	}
	switch {
	case p.at == begin:
		return element{}, p.errorf("a name is missing")
	case p.text[begin] == '-': // an option to any program it is handed to
		p.at = begin
		return element{}, p.errorf("a name cannot begin with a hyphen")
	case e.longest() > maxHostName:
		p.at = begin
		return element{}, p.errorf("a name is longer than %d characters", maxHostName)
	}
	return e, nil
}

func (p *hostlistParser) group() ([]numbers, error) {
	var g []numbers
	for {
		low, width, err := p.number()
		if err != nil {
			return nil, err
		}
		r := numbers{low: low, high: low, width: width}
		if p.take('-') {
			if r.high, _, err = p.number(); err != nil {
				return nil, err
			}
		}
		if r.high < r.low {
			return nil, p.errorf("range %d-%d runs backwards", r.low, r.high)
		}
		if r.high-r.low >= MaxHosts {
			return nil, p.errorf("range %d-%d has more than %d numbers", r.low, r.high, MaxHosts)
		}
		g = append(g, r)
		if p.take(']') {
			return g, nil
		}
		if !p.take(',') {
			return nil, p.errorf("a bracket is not closed")
		}
	}
}

func (p *hostlistParser) number() (value, width int, err error) {
	begin := p.at
	for p.at < len(p.text) && isDigit(p.text[p.at]) {
		p.at++
	}
	digits := p.text[begin:p.at]
	if digits == "" {
		return 0, 0, p.errorf("a number is missing")
	}
	if len(digits) > maxDigits {
		return 0, 0, p.errorf("a number has more than %d digits", maxDigits)
	}
	value, err = strconv.Atoi(digits)
	if err != nil {
		return 0, 0, p.errorf("%v", err)
	}
	return value, len(digits), nil
}

// plain takes the characters of a host name.
func (p *hostlistParser) plain() string {
	begin := p.at
	for p.at < len(p.text) && isHostByte(p.text[p.at]) {
		p.at++
	}
	return p.text[begin:p.at]
}

func (p *hostlistParser) take(b byte) bool {
	if p.at < len(p.text) && p.text[p.at] == b {
		p.at++
		return true
	}
	return false
}

func (p *hostlistParser) errorf(format string, args ...any) error {
	return fmt.Errorf("hostlist %s, character %d: %s", shorten(p.text), p.at+1, fmt.Sprintf(format, args...))
}

// shorten quotes the beginning of a text, since hostlists in errors come from outside and may be of any length.
func shorten(s string) string {
	const keep = 80
	if len(s) <= keep {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:keep]) + "…"
}

func pad(n, width int) string {
	s := strconv.Itoa(n)
	if len(s) >= width {
		return s
	}
	return strings.Repeat("0", width-len(s)) + s
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isHostByte(b byte) bool {
	return isDigit(b) || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b == '-' || b == '_' || b == '.'
}
