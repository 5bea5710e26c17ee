// Package nearest finds the name that was probably meant when a name is not known, so that a refusal can say so. It knows
// nothing of what the names are for.
package nearest

import (
	"iter"
	"strings"
)

// Name is the known name nearest to got by the number of letters that are missing, too many, wrong or swapped, with case,
// underscores and hyphens ignored. It is false when none is near enough to be what was meant: more than a third of
// the letters differ. Of equally near names the first is taken.
func Name(got string, known iter.Seq[string]) (string, bool) {
	const longest = 100 // nobody means a known name by more
	if len(got) > longest {
		return "", false
	}
	a := plain(got)
	best, found := "", false
	limit := len(a)/3 + 1
	for name := range known {
		b := plain(name)
		if len(b)-len(a) >= limit || len(a)-len(b) >= limit {
			continue
		}
		if d := distance(a, b); d < limit {
			best, found, limit = name, true, d
		}
	}
	return best, found
}

var separators = strings.NewReplacer("_", "", "-", "")

func plain(s string) string { return strings.ToLower(separators.Replace(s)) }

// distance is the optimal string alignment distance, over bytes.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
