package api_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// permit is one line of the table in docs/AUTHORIZATION.md: what stands under each role.
type permit map[string]string

// permits reads the table: every route of the server once, and no other.
func permits(t *testing.T) map[string]permit {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "AUTHORIZATION.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]permit{}
	var heads []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		var cells []string
		for _, c := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		switch {
		case heads == nil:
			heads = cells
		case strings.HasPrefix(cells[0], "`"):
			name := strings.Trim(cells[0], "`")
			if _, twice := table[name]; twice {
				t.Errorf("%s stands twice in the table", name)
			}
			table[name] = permit{}
			for i, cell := range cells[1:] {
				if !slices.Contains([]string{"", "yes", "both", "public"}, cell) {
					t.Errorf("%s: %q", name, cell)
				}
				table[name][heads[i+1]] = cell
			}
		}
	}
	count := 0
	for _, r := range api.Routes() {
		if _, ok := table[r.Method+" "+r.Path]; !ok {
			t.Errorf("docs/AUTHORIZATION.md has no line for %s %s", r.Method, r.Path)
		}
		count++
	}
	if count != len(table) {
		t.Errorf("docs/AUTHORIZATION.md has %d routes, the server %d", len(table), count)
	}
	return table
}

// lets says what the line means for a principal with these roles.
func (p permit) lets(has ...string) bool {
	all := true
	for _, role := range []string{models.RoleAdministrator, models.RoleOperator, models.RoleWorker, models.RoleReader} {
		if p[role] == "yes" && slices.Contains(has, role) {
			return true
		}
		if p[role] == "both" && !slices.Contains(has, role) {
			all = false
		}
	}
	return all && slices.Contains([]string{p[models.RoleAdministrator], p[models.RoleOperator], p[models.RoleWorker], p[models.RoleReader]}, "both")
}

// The table of docs/AUTHORIZATION.md holds for every route, every role and every pair of roles, and from another factory: who
// is not let in is told so by role, and nothing is written for them. FLOW-01, FLOW-06 (the role), FLOW-16 (the identity).
func TestAuthorizationTable(t *testing.T) {
	table := permits(t)
	roles := []string{models.RoleAdministrator, models.RoleOperator, models.RoleWorker, models.RoleReader}
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := held(t, w)
		people := map[string][]string{Nobody: nil}
		for i, one := range roles {
			for _, two := range roles[i:] {
				id, has := one+"."+two, slices.Sorted(slices.Values([]string{one, two}))
				if one == two {
					has = has[:1]
				}
				w.Change(t, "principal-"+id, models.PutPrincipal{ID: id, Roles: has})
				w.Tokens[id], _ = w.Token(t, Factory, id, 3600)
				people[id] = has
			}
		}
		valids := map[string]Call{}
		for _, route := range api.Routes() {
			valids[route.Method+" "+route.Path] = valid(t, w, r, route)
		}
		for round, allowed := range []bool{false, true} { // who is let in may change something, so they come last
			before := snapshot(t, w)
			for name, c := range valids {
				for id, has := range people {
					if table[name][models.RoleReader] == "public" {
						if round == 0 {
							c.As = ""
							if a := w.Send(t, c); a.Status != http.StatusOK {
								t.Errorf("%s: %d %s", name, a.Status, a.Body)
							}
						}
						continue
					}
					if table[name].lets(has...) != allowed {
						continue
					}
					c.As = id
					a := w.Send(t, c)
					refused := a.Status == http.StatusForbidden && a.Code() == models.CodeRoleMissing
					if refused == allowed || a.Status == http.StatusUnauthorized || a.Status >= 500 {
						t.Errorf("%s as %v: %d %s", name, has, a.Status, a.Body)
					}
				}
			}
			if !allowed {
				unchanged(t, before, snapshot(t, w))
			}
		}
		// From another factory nothing of this one can be named, whatever the roles there.
		own := ownLines(t, w)
		for name, c := range valids {
			if !strings.Contains(name, "{run_id}") || name == "PUT /api/v1/runs/{run_id}" {
				continue
			}
			c.As = Stranger
			if a := w.Send(t, c); a.Code() != models.CodeNotFound || a.Status != http.StatusNotFound {
				t.Errorf("%s from another factory: %d %s", name, a.Status, a.Body)
			}
		}
		unchanged(t, own, ownLines(t, w))
	})
}

// ownLines is the part of the snapshot that is of the factory itself.
func ownLines(t *testing.T, w *World) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(snapshot(t, w)) {
		if strings.HasPrefix(line, Factory+" ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
