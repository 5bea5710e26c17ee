package slurm

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind says which values a parameter takes.
type Kind int

// The kinds.
const (
	Text     Kind = iota // anything that is one word of slurm.conf
	Number16             // 0 to 65533, or INFINITE
	Number32
	Number64 // a suffix K, M, G or T multiplies
	Word     // one of the parameter's Values, in any case; a value that ends in * stands for all that begin so
	Words    // several of them, with commas
	Time     // minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, or INFINITE
)

// maxParameterValue bounds a value: the longest in use are lists of scheduler parameters.
const maxParameterValue = 4096

// checkText says why a value could not stand in slurm.conf as what it is, whatever the parameter.
func checkText(value string) *Refusal {
	const allowed = "one word of printable ASCII, or several in double quotes, without # and \\"
	quoted := len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"'
	inner := value
	if quoted {
		inner = value[1 : len(value)-1]
	}
	var problem string
	switch at := strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }); {
	case inner == "":
		problem = "the value is empty"
	case len(value) > maxParameterValue:
		return &Refusal{Problem: fmt.Sprintf("the value has %d characters", len(value)), Allowed: fmt.Sprintf("at most %d", maxParameterValue)}
	case at >= 0:
		problem = fmt.Sprintf("%s contains %q", shorten(value), []rune(value[at:])[0])
	case strings.Contains(inner, `"`):
		problem = shorten(value) + " contains a double quote"
	case strings.ContainsAny(value, `#`):
		problem = shorten(value) + " contains #, which begins a comment, even in quotes"
	case strings.ContainsAny(value, `\`):
		problem = shorten(value) + ` contains \, which would join the next line or be dropped`
	case value[0] == '=':
		problem = shorten(value) + " begins with ="
	case !quoted && strings.Contains(value, " "):
		problem = shorten(value) + " contains a space outside of double quotes, where the next parameter would begin"
	default:
		return nil
	}
	return &Refusal{Problem: problem, Allowed: allowed}
}

var timeValue = regexp.MustCompile(`^(-1|[0-9]{1,9}(:[0-9]{1,2}){0,2}|[0-9]{1,9}-[0-9]{1,2}(:[0-9]{1,2}){0,2})$`)

func (p Parameter) checkValue(value string) *Refusal {
	switch p.Kind {
	case Number16:
		return checkNumber(value, math.MaxUint16-2)
	case Number32:
		return checkNumber(value, math.MaxUint32-2)
	case Number64:
		if digits := strings.TrimRight(value, "kKmMgGtT"); len(digits) == len(value)-1 && isDigit(value[0]) {
			return checkNumber(digits, math.MaxInt64)
		}
		return checkNumber(value, math.MaxInt64)
	case Time:
		if !infinite(value) && !timeValue.MatchString(value) {
			return &Refusal{Problem: shorten(value) + " is not a time", Allowed: "minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or INFINITE"}
		}
	case Word:
		if !p.has(value) {
			return &Refusal{Problem: shorten(value) + " is not a value of " + p.Name, Allowed: p.allowed()}
		}
	case Words:
		for word := range strings.SplitSeq(value, ",") {
			if !p.has(word) {
				return &Refusal{Problem: shorten(word) + " is not a value of " + p.Name, Allowed: "a list of " + p.allowed()}
			}
		}
	case Text:
	}
	return nil
}

func (p Parameter) has(word string) bool {
	return slices.ContainsFunc(p.Values, func(v string) bool {
		if begin, open := strings.CutSuffix(v, "*"); open {
			rest, ok := strings.CutPrefix(strings.ToUpper(word), begin)
			_, err := strconv.ParseUint(rest, 10, 16)
			return ok && err == nil
		}
		return strings.EqualFold(v, word)
	})
}

func (p Parameter) allowed() string {
	return strings.ReplaceAll(strings.Join(p.Values, ", "), "*", "N")
}

func checkNumber(value string, most uint64) *Refusal {
	if n, err := strconv.ParseUint(value, 10, 64); (err == nil && n <= most) || infinite(value) {
		return nil
	}
	return &Refusal{Problem: shorten(value) + " is not a number", Allowed: fmt.Sprintf("0 to %d, or INFINITE", most)}
}

func infinite(value string) bool {
	return strings.EqualFold(value, "INFINITE") || strings.EqualFold(value, "UNLIMITED") || value == "-1"
}
