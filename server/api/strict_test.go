package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// marker stands in every bad input that can hold text; no answer may repeat it.
const marker = "zqxmarker"

// optional names the members that a route may be sent without; acknowledgements and the window have codes of their own.
var optional = map[string]bool{
	"name": true, "version": true, "valid_for_seconds": true, "acknowledge_no_new_grant": true,
	"acknowledge_original_consumption": true, "acknowledge_renewed_same_attempt_lease": true,
}

// bad returns broken forms of a valid body, by what is wrong with them.
func bad(t *testing.T, body []byte, limit int64) map[string]string {
	t.Helper()
	good := string(body)
	deep := strings.Repeat("[", 129) + `"` + marker + `"` + strings.Repeat("]", 129)
	out := map[string]string{
		"empty": "", "space": " ", "null": "null", "text": `"` + marker + `"`, "number": "1", "true": "true", "array": `["` + marker + `"]`,
		"array of it": "[" + good + "]", "cut": good[:len(good)-1], "after": good + ` "` + marker + `"`, "twice": good + good, "comma": good[:len(good)-1] + ",}",
		"byte order mark": "\ufeff" + good, "NUL after": good + "\x00", "comment": good + "/*" + marker + "*/", "single quotes": strings.ReplaceAll(good, `"`, `'`),
		"depth": deep, "deep member": with(good, marker, deep), "unknown": with(good, marker, `"`+marker+`"`), "unknown null": with(good, marker, "null"),
		"NUL": with(good, marker, `"a\u0000b"`), "raw NUL": with(good, marker, "\"\x00\""), "bad UTF-8": with(good, marker, "\"\xff"+marker+"\""),
		"surrogate": with(good, marker, `"\ud800`+marker+`"`), "control": with(good, marker, "\"\n\""), "NaN": with(good, marker, "NaN"),
		"overlong": with(good, marker, "\"\xc0\x80\""), "form": marker + "=1",
	}
	out["huge"] = good + strings.Repeat(" ", int(limit)-len(good)+1)
	if good == "{}" {
		delete(out, "single quotes")
	}
	mutate(t, "", json.RawMessage(body), func(path string, changed string) { out[path] = changed })
	return out
}

// with adds a member to an object.
func with(object, name, value string) string {
	sep := ","
	if object == "{}" {
		sep = ""
	}
	return object[:len(object)-1] + sep + fmt.Sprintf("%q:", name) + value + "}"
}

// mutate breaks every member of an object, and of the objects inside it: missing, twice, null, and of every other type.
func mutate(t *testing.T, path string, body json.RawMessage, emit func(path, changed string)) {
	t.Helper()
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return
	}
	write := func(replace string, value string) string {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(members)) {
			text := string(members[name])
			if name == replace {
				if value == "" {
					continue
				}
				text = value
			}
			parts = append(parts, fmt.Sprintf("%q:%s", name, text))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	for name, value := range members {
		at := path + "." + name
		kinds := map[string]string{"text": `"` + marker + `"`, "number": "7", "Boolean": "true", "array": `[{"` + marker + `":1}]`, "object": `{"` + marker + `":1}`,
			"float": "1.5", "exponent": "1e3", "minus zero": "-0", "overflow": "9223372036854775808", "underflow": "-9223372036854775809", "null": "null"}
		switch value[0] {
		case '"':
			delete(kinds, "text")
			if name == "digest" || strings.HasSuffix(name, "_digest") || len(value) == 66 {
				kinds["digest"] = `"` + marker + `"`
				kinds["upper case"] = strings.ToUpper(string(value))
			}
		case '[':
			delete(kinds, "array")
		case '{':
			delete(kinds, "object")
			mutate(t, at, value, func(inner, changed string) { emit(inner, write(name, changed)) })
			kinds["unknown inside"] = with(string(value), marker, "1")
		case 't', 'f':
			delete(kinds, "Boolean")
		default:
			delete(kinds, "number")
		}
		if strings.HasPrefix(name, "acknowledge_") {
			kinds = map[string]string{"float": "1.5", "exponent": "1e3", "minus zero": "-0", "NUL": `"\u0000"`}
		}
		for kind, text := range kinds {
			emit(at+" as "+kind, write(name, text))
		}
		if path != "" || !optional[name] {
			emit(at+" missing", write(name, ""))
		}
		twice := write("", "")
		emit(at+" twice", twice[:len(twice)-1]+fmt.Sprintf(",%q:%s}", name, value))
		emit(at+" in other case", with(write(name, ""), strings.ToUpper(name), string(value)))
	}
}

// Each route with a command in its body refuses every broken form of it: 400, or 413 above its limit, with nothing written
// and nothing of the input repeated (FLOW-10 and FLOW-33 for the types; design, Errors).
func TestStrictBodies(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := held(t, w)
		before := snapshot(t, w)
		total := 0
		for _, route := range api.Routes() {
			if route.Limit == 0 || strings.Contains(route.Path, "/blobs/") || strings.HasSuffix(route.Path, "/evidence") ||
				strings.Contains(route.Path, "/reports/") {
				continue
			}
			c := valid(t, w, r, route)
			c.As = Dana
			if slices.Contains(route.Roles, models.RoleWorker) {
				c.As = Worker
			}
			body, err := w.Request(c)
			if err != nil {
				t.Fatal(err)
			}
			text := make([]byte, body.ContentLength)
			if _, err := body.Body.Read(text); err != nil {
				t.Fatal(err)
			}
			for what, changed := range bad(t, text, route.Limit) {
				total++
				c.Body = changed
				a, err := w.Try(c)
				if err != nil && what == "huge" {
					continue // the server closes on bytes that it does not read, and the client may see that before the answer
				} else if err != nil {
					t.Fatal(err)
				}
				want := models.CodeRequestMalformed
				if what == "huge" {
					want = models.CodePayloadTooLarge
				}
				if entry, _ := models.Lookup(want); a.Code() != want || a.Status != entry.HTTP {
					t.Errorf("%s %s, %s: %d %s\nfor %.300s", route.Method, route.Path, what, a.Status, a.Body, changed)
				}
				if strings.Contains(string(a.Body), marker) || strings.Contains(fmt.Sprint(a.Header), marker) {
					t.Errorf("%s %s, %s repeats the input: %s", route.Method, route.Path, what, a.Body)
				}
			}
		}
		unchanged(t, before, snapshot(t, w))
		if lines := w.Log.Lines(marker); len(lines) > 0 {
			t.Errorf("the log repeats the input: %q", lines)
		}
		if total < 500 {
			t.Errorf("only %d bad bodies", total)
		}
	})
}

// What a fact says is decoded as strictly as the batch around it.
func TestStrictFacts(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1")
		r.Claim(t, "claim-1")
		command := r.Blob(t, Worker, "a command")
		before := snapshot(t, w)
		send := func(fact string) Answer {
			return w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/batches/b", Body: fmt.Sprintf(`{"facts":[%s],"fence":1}`, fact)})
		}
		data := fmt.Sprintf(`{"command":%q,"number":1,"position":-1,"request":0}`, command)
		mutate(t, "", json.RawMessage(data), func(what, changed string) {
			refused(t, send(fmt.Sprintf(`{"data":%s,"kind":"command.started"}`, changed)), models.CodeRequestMalformed)
		})
		for _, kind := range []string{"command.began", "", "migration.settled", "lease.granted", "claim.taken", "run.registered", "policy.put", marker} {
			a := send(fmt.Sprintf(`{"data":%s,"kind":%q}`, data, kind))
			refused(t, a, models.CodeRequestMalformed)
			if strings.Contains(string(a.Body), marker) {
				t.Errorf("repeats the input: %s", a.Body)
			}
		}
		unchanged(t, before, snapshot(t, w))
		if a := send(fmt.Sprintf(`{"kind":"command.started", "data":%s}`, data)); a.Status != http.StatusCreated {
			t.Fatalf("the good one: %d %s", a.Status, a.Body)
		}
	})
}

// Ids in paths, digests, headers and queries: anything but what is written in the route table is refused, escapes are
// undone once and never twice.
func TestStrictAddresses(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := held(t, w)
		before := snapshot(t, w)
		get := func(path string) Answer {
			return w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: path})
		}
		for _, id := range []string{
			"%00", "a%00", "a%2Fb", "a%2fb", "%2e%2e", "..", ".", "%2E", "%2561", "a%20b", "a+b", "a%", "%zz" + marker, "%c3%a9", "%ff", "a;b",
			"a:b", "a,b", "a~b", "a'b", strings.Repeat("a", 65), marker + "%3Cscript%3E",
		} {
			for _, path := range []string{
				"/api/v1/runs/" + id, "/api/v1/runs/" + id + "/rows", "/api/v1/runs/" + id + "/invalid-read-continuity/candidate",
				"/api/v1/runs/run-1/invalid-read-continuity/requests/" + id, "/api/v1/runs/run-1/blobs/" + id,
			} {
				a := raw(t, w, "GET "+path+" HTTP/1.1\r\nHost: forge\r\nConnection: close\r\nAuthorization: Bearer "+w.Tokens[Dana]+"\r\n\r\n")
				if !strings.HasPrefix(a, "HTTP/1.1 400 ") && !strings.HasPrefix(a, "HTTP/1.1 404 ") || strings.Contains(a, marker) {
					t.Errorf("%s: %.400s", path, a)
				}
			}
		}
		for _, path := range []string{
			"/runs?limit=0", "/runs?limit=1001", "/runs?limit=-1", "/runs?limit=1.0", "/runs?limit=01", "/runs?limit=%2B1", "/runs?limit=", "/runs?limit=1&limit=1",
			"/runs?limit=1e1", "/runs?limit=99999999999999999999", "/runs?before=" + marker, "/runs?after=a%2Fb", "/runs?after=%zz", "/runs?" + marker,
			"/runs/run-1/rows?from=0", "/runs/run-1/rows?from=100001", "/runs/run-1/rows?limit=1001", "/runs/run-1/rows?after=1", "/runs/run-1?x=1",
			"/runs/run-1/export?x=1", "/work?wait_seconds=21", "/work?wait_seconds=-1", "/work?wait=1", "/factory?x=1", "/factory/rows?from=" + marker,
			"/invalid-read-continuity/policy?revision=1", "/runs/run-1/invalid-read-continuity/candidate?x=1", "/runs/run-1/invalid-read-continuity/requests/request-1?x=1",
		} {
			a := get(path)
			if a.Code() != models.CodeRequestMalformed || strings.Contains(string(a.Body), marker) {
				t.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
		}
		digest := r.Checkpoint.String()
		for _, d := range []string{digest[:63], digest + "0", strings.ToUpper(digest), strings.Repeat("0", 64), "g" + digest[1:], marker} {
			refused(t, get("/runs/run-1/blobs/"+d), models.CodeRequestMalformed)
		}
		for _, fence := range []string{"", "-1", "+1", "01", "1.0", "one", "1,1", "18446744073709551616", marker} {
			a := w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/blobs/" + digest, Body: "x", Header: map[string]string{"Forge-Fence": fence}})
			refused(t, a, models.CodeRequestMalformed)
		}
		if a := get("/runs/%72un-1"); a.Status != http.StatusOK { // the same address by RFC 3986, section 6.2.2.2
			t.Errorf("%d %s", a.Status, a.Body)
		}
		for path, code := range map[string]models.Code{
			"/api/v1": models.CodeNotFound, "/api/v1/runs/": models.CodeNotFound, "/API/v1/runs": models.CodeNotFound, "/api/v1/Runs": models.CodeNotFound,
			"/api/v1/runs/run-1/": models.CodeNotFound, "//api/v1/runs": models.CodeNotFound, "/api/v1/runs/run-1/invalid-read-continuity": models.CodeNotFound,
			"/problems/" + marker: models.CodeNotFound,
		} {
			if a := get(strings.Replace(path, "//api", "/api/..//api", 1)); a.Code() != code {
				t.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace} {
			a := w.Send(t, Call{As: Dana, Method: method, Path: "/runs/run-1"})
			if a.Code() != models.CodeMethodNotAllowed || !strings.Contains(a.Header.Get("Allow"), http.MethodGet) {
				t.Errorf("%s: %d %s, Allow %q", method, a.Status, a.Body, a.Header.Get("Allow"))
			}
		}
		unchanged(t, before, snapshot(t, w))
	})
}

// Every id that models.ValidID accepts works in an address, as it is and escaped.
func TestIDsInAddresses(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		for i, id := range []string{"a", "A.b-c_9", "-", "...", "_._", strings.Repeat("z", 64), "a.json", "0", "rows", "export"} {
			r := w.Hold(t, id)
			request := fmt.Sprintf("%s.%d", id[:min(len(id), 60)], i)
			r.Admit(t, request)
			escaped := fmt.Sprintf("%%%02X", id[0]) + id[1:]
			for _, name := range []string{id, escaped} {
				a := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: "/runs/" + name + "/invalid-read-continuity/requests/" + request})
				var receipt models.ContinuityReceipt
				if err := canon.Unmarshal(a.Body, &receipt); err != nil || receipt.Run != id || receipt.RequestID != request {
					t.Errorf("%s: %d %s", name, a.Status, a.Body)
				}
			}
		}
	})
}

// A blob is kept under the digest of its bytes and no other, by the one who may write the run now; any bytes are content.
func TestBlobs(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1")
		content := "\x00\xff{not json" + marker
		digest := models.SaltedBlob(r.Salt, []byte(content))
		put := func(as, fence string, d models.Digest, content string) Answer {
			return w.Send(t, Call{As: as, Method: http.MethodPut, Path: "/runs/run-1/blobs/" + d.String(), Body: content, Header: map[string]string{"Forge-Fence": fence}})
		}
		get := Call{As: Reader, Method: http.MethodGet, Path: "/runs/run-1/blobs/" + digest.String()}
		refused(t, put(Dana, "0", digest, content+"x"), models.CodeBlobMismatch)
		refused(t, put(Dana, "0", models.PlainDigest([]byte(content)), content), models.CodeBlobMismatch)
		refused(t, put(Operator, "0", digest, content), models.CodeFenceLost) // not the opener
		refused(t, put(Reader, "0", digest, content), models.CodeRoleMissing)
		refused(t, w.Send(t, get), models.CodeNotFound)
		for range 2 {
			if a := put(Dana, "0", digest, content); a.Status != http.StatusNoContent || len(a.Body) != 0 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
		a := w.Send(t, get)
		if a.Status != http.StatusOK || string(a.Body) != content || a.Header.Get("Content-Type") != "application/octet-stream" ||
			a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Content-Disposition") != "attachment" {
			t.Fatalf("%d %q %v", a.Status, a.Body, a.Header)
		}
		r.Claim(t, "claim-1")
		other := models.SaltedBlob(r.Salt, []byte("other"))
		refused(t, put(Dana, "0", other, "other"), models.CodeFenceLost)
		refused(t, put(Worker, "2", other, "other"), models.CodeFenceLost)
		if a := put(Worker, "1", other, "other"); a.Status != http.StatusNoContent {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		large := strings.Repeat("x", 16<<20)
		if a := put(Worker, "1", models.SaltedBlob(r.Salt, []byte(large)), large); a.Status != http.StatusNoContent {
			t.Fatalf("16 MiB: %d %s", a.Status, a.Body)
		}
		// A client may see the connection go before the answer; what counts is that nothing is kept.
		over, err := w.Try(Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/blobs/" + other.String(), Body: large + "x", Header: map[string]string{"Forge-Fence": "1"}})
		if err == nil {
			refused(t, over, models.CodePayloadTooLarge)
		}
		empty := models.SaltedBlob(r.Salt, nil)
		if a := put(Worker, "1", empty, ""); a.Status != http.StatusNoContent {
			t.Fatalf("empty: %d %s", a.Status, a.Body)
		}
	})
}
