package trail

import "testing"

func TestFate(t *testing.T) {
	lease := Mark{Epoch: 3, Commit: "lease"}
	first, second := Mark{3, "first"}, Mark{3, "second"}
	tests := []struct {
		name           string
		trail          Trail
		before, commit Mark
		want           Fate
	}{
		{"nothing has happened since", Trail{{2, "x"}, lease}, lease, first, Pending},
		{"it was applied", Trail{{2, "x"}, first}, lease, first, Applied},
		{"it was applied, and others came after", Trail{{2, "x"}, first, {4, "y"}, {5, "z"}}, lease, first, Applied},
		{"another took over before it", Trail{{2, "x"}, lease, {4, "y"}}, lease, first, Lost},
		{"another took over before the second", Trail{first, {4, "y"}, {5, "z"}}, first, second, Lost},
		{"another of the same epoch came in its place", Trail{{2, "x"}, {3, "other"}}, lease, first, Lost},
		{"many have held it since", Trail{{20, "x"}, {21, "y"}}, lease, first, Forgotten},
		{"the document was to be made, and was not", nil, Mark{}, Mark{1, "x"}, Pending},
		{"another made the document", Trail{{1, "y"}}, Mark{}, Mark{1, "x"}, Lost},
		{"a lease won", Trail{{2, "x"}, lease}, Mark{2, "x"}, lease, Applied},
		{"a lease that another won", Trail{{2, "x"}, {3, "other"}}, Mark{2, "x"}, lease, Lost},
		{"a lease after which the former holder went on", Trail{{2, "x2"}}, Mark{2, "x"}, lease, Lost},
		{"a lease not yet", Trail{{2, "x"}}, Mark{2, "x"}, lease, Pending},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.trail.Fate(tt.before, tt.commit); got != tt.want {
				t.Errorf("Fate() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWithKeepsOneMarkAnEpochAndTheLatestEpochs(t *testing.T) {
	var tr Trail
	for epoch := range int64(3 * length) {
		for _, commit := range []string{"a", "b", "c"} {
			before := tr
			tr = tr.With(Mark{epoch, commit})
			if len(before) > 0 && before.Last() == tr.Last() {
				t.Fatal("With changed the trail it was called on")
			}
		}
	}
	if len(tr) != length {
		t.Fatalf("%d marks, want %d", len(tr), length)
	}
	for i, m := range tr {
		if want := (Mark{int64(2*length + i), "c"}); m != want {
			t.Errorf("mark %d = %v, want %v", i, m, want)
		}
	}
}
