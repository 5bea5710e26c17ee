package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// paint colours words for people on a terminal, and leaves them alone everywhere else.
type paint bool

// painted is whether out is a terminal whose owner has nothing against colours (no-color.org).
func painted(out io.Writer) paint {
	f, ok := out.(*os.File)
	return paint(ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

func (p paint) in(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string   { return p.in("1", s) }
func (p paint) dim(s string) string    { return p.in("2", s) }
func (p paint) red(s string) string    { return p.in("31", s) }
func (p paint) green(s string) string  { return p.in("32", s) }
func (p paint) yellow(s string) string { return p.in("33", s) }
func (p paint) cyan(s string) string   { return p.in("36", s) }

// word colours a state by what it means: good, in motion, bad.
func (p paint) word(s string) string {
	switch strings.ToUpper(strings.TrimSpace(s)) {
	case "RUNNING", "READY", "TRUE", "COMPLETED", "GRANTED", "IDLE":
		return p.green(s)
	case "ERROR", "FAILED", "FALSE", "NODE_FAIL", "TIMEOUT", "OPEN":
		return p.red(s)
	case "":
		return s
	}
	return p.yellow(s)
}

// table writes columns as wide as their widest cell. A cell's colours do not count.
type table struct {
	paint paint
	head  []string
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	t.lines(w, true)
}

// rowsOnly leaves the heads out.
func (t *table) rowsOnly(w io.Writer) { t.lines(w, false) }

func (t *table) lines(w io.Writer, head bool) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], visible(cell))
		}
	}
	line := func(row []string, dress func(string) string) {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(dress(cell))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-visible(cell)+2))
			}
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	if head {
		line(t.head, t.paint.dim)
	}
	for _, row := range t.rows {
		line(row, func(s string) string { return s })
	}
}

// visible is how many characters of s are seen.
func visible(s string) int {
	n := utf8.RuneCountInString(s)
	for {
		at := strings.Index(s, "\x1b[")
		if at < 0 {
			return n
		}
		end := strings.IndexByte(s[at:], 'm')
		if end < 0 {
			return n
		}
		n -= end + 1
		s = s[at+end+1:]
	}
}

// age is a length of time in at most two units: 3s, 2m10s, 4h5m, 6d23h.
func age(d time.Duration) string {
	switch d = max(d, 0).Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// outputFlag adds --output, and gives a check of it to call first.
func outputFlag(cmd *cobra.Command, output *string) func() error {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text or json")
	return func() error {
		if *output != "text" && *output != "json" {
			return misused(cmd, fmt.Errorf("--output is %q, want text or json", *output))
		}
		return nil
	}
}

func (a app) json(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing the answer, %w", err)
	}
	return nil
}

func (a app) print(format string, args ...any) { _, _ = fmt.Fprintf(a.out, format, args...) }
