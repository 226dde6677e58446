package killswitch

import (
	"strings"
	"testing"
)

func TestSelectorCovers(t *testing.T) {
	full := Scope{Tool: "t", Version: "1", Tenant: "ten", Subject: "sub", Agent: "ag", Task: "ta", Run: "ru",
		CapabilityClasses: []string{"read_private", "write_side_effect"}, Risk: "high", Host: "api.orders.example"}
	one := func(v ...string) []string { return v }
	cases := []struct {
		name string
		s    Selector
		sc   Scope
		want bool
	}{
		{"zero", Selector{}, full, false},
		{"zero on zero", Selector{}, Scope{}, false},
		{"all", Selector{All: true}, Scope{}, true},
		{"all with another field", Selector{All: true, Tool: one("t")}, full, false},
		{"tool", Selector{Tool: one("t")}, full, true},
		{"one of", Selector{Tool: one("x", "t")}, full, true},
		{"case", Selector{Tool: one("T")}, full, false},
		{"prefix", Selector{Tool: one("tt")}, full, false},
		{"version", Selector{Version: one("1")}, full, true},
		{"tenant", Selector{Tenant: one("ten")}, full, true},
		{"subject", Selector{Subject: one("sub")}, full, true},
		{"agent", Selector{Agent: one("ag")}, full, true},
		{"task", Selector{Task: one("ta")}, full, true},
		{"run", Selector{Run: one("ru")}, full, true},
		{"wrong version", Selector{Version: one("2")}, full, false},
		{"wrong tenant", Selector{Tenant: one("x")}, full, false},
		{"wrong subject", Selector{Subject: one("x")}, full, false},
		{"wrong agent", Selector{Agent: one("x")}, full, false},
		{"wrong task", Selector{Task: one("x")}, full, false},
		{"wrong run", Selector{Run: one("x")}, full, false},
		{"class", Selector{CapabilityClass: one("write_side_effect")}, full, true},
		{"no such class", Selector{CapabilityClass: one("memory_write")}, full, false},
		{"risk", Selector{Risk: one("critical", "high")}, full, true},
		{"wrong risk", Selector{Risk: one("low")}, full, false},
		{"two fields", Selector{Tool: one("t"), Tenant: one("ten")}, full, true},
		{"one of two fields", Selector{Tool: one("t"), Tenant: one("x")}, full, false},
		{"call without the field", Selector{Tool: one("t"), Tenant: one("ten")}, Scope{Tool: "t"}, false},
		{"call without classes", Selector{CapabilityClass: one("read_private")}, Scope{Tool: "t"}, false},
		{"call without a host", Selector{Host: one("*.example")}, Scope{Tool: "t"}, false},
		{"host", Selector{Host: one("api.orders.example")}, full, true},
		{"host upper case", Selector{Host: one("API.Orders.Example")}, full, true},
		{"host trailing dot", Selector{Host: one("api.orders.example.")}, full, true},
		{"scope's host upper case", Selector{Host: one("a.example")}, Scope{Host: "A.example."}, true},
		{"wildcard", Selector{Host: one("*.orders.example")}, full, true},
		{"wildcard two labels", Selector{Host: one("*.example")}, full, true},
		{"wildcard upper case", Selector{Host: one("*.Orders.EXAMPLE")}, full, true},
		{"wildcard not the apex", Selector{Host: one("*.api.orders.example")}, full, false},
		{"wildcard not inside a label", Selector{Host: one("*.rders.example")}, full, false},
		{"address", Selector{Host: one("2001:DB8:0::1")}, Scope{Host: "2001:db8::1"}, true},
		{"other address", Selector{Host: one("2001:db8::2")}, Scope{Host: "2001:db8::1"}, false},
	}
	for _, c := range cases {
		if got := c.s.Covers(c.sc); got != c.want {
			t.Errorf("%s: Covers is %v", c.name, got)
		}
		// The index of a Switch, alone and beside entries that share every field, must agree.
		if c.s.Validate() != nil {
			continue
		}
		for _, others := range []int{0, 3} {
			k := New(0, "s")
			set := []Revocation{revoke("r", c.s)}
			for i := range others {
				o := c.s.clone()
				o.All, o.Run = false, []string{"other" + string(rune('a'+i))}
				set = append(set, revoke(o.Run[0], o))
			}
			mustApply(t, k, "s", set...)
			if got := k.Check(c.sc) != nil; got != c.want {
				t.Errorf("%s: with %d others Check refuses is %v", c.name, others, got)
			}
		}
	}
}

func TestSelectorValidate(t *testing.T) {
	for want, s := range map[string]Selector{
		"no field":                 {},
		"all excludes":             {All: true, Host: []string{"a.example"}},
		"tenant has an empty":      {Tool: []string{"t"}, Tenant: []string{""}},
		"class has an empty":       {CapabilityClass: []string{"a", ""}},
		`risk "severe"`:            {Risk: []string{"severe"}},
		`risk "High"`:              {Risk: []string{"High"}},
		`host "*"`:                 {Host: []string{"*"}},
		`host "*."`:                {Host: []string{"*."}},
		`host "a.*.example"`:       {Host: []string{"a.*.example"}},
		`host "a.example:443"`:     {Host: []string{"a.example:443"}},
		`host "https://a.example"`: {Host: []string{"https://a.example"}},
		`host "a..example"`:        {Host: []string{"a..example"}},
		`host "[::1]"`:             {Host: []string{"[::1]"}},
		`host "bücher.example"`:    {Host: []string{"bücher.example"}},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "capabilityClass", "class"), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
	good := Selector{Tool: []string{"t"}, Risk: []string{"low"}, Host: []string{"*.a.example", "b_c.example.", "10.0.0.1", "::1"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func FuzzSelector(f *testing.F) {
	f.Add("t", "", "", "", "high", "*.a.example", false, "t", "", "", "high", "b.a.example")
	f.Add("", "", "", "", "", "", true, "t", "a", "r", "low", "h")
	f.Add("", "", "", "", "", "*.", false, "", "", "", "", "a.")
	f.Add("t", "", "", "", "", "", true, "t", "", "", "", "")
	f.Add("", "ten", "c", "", "", "::1", false, "", "ten", "c", "", "::1")
	f.Fuzz(func(t *testing.T, tool, tenant, class, run, risk, host string, all bool, cTool, cTenant, cClass, cRisk, cHost string) {
		list := func(v string) []string {
			if v == "" {
				return nil
			}
			return strings.Split(v, ",")
		}
		s := Selector{Tool: list(tool), Tenant: list(tenant), CapabilityClass: list(class), Run: list(run), Risk: list(risk), Host: list(host), All: all}
		sc := Scope{Tool: cTool, Tenant: cTenant, CapabilityClasses: list(cClass), Risk: cRisk, Host: cHost}
		covers := s.Covers(sc)
		if covers && s.Validate() != nil {
			t.Fatalf("%+v covers %+v and is invalid: %v", s, sc, s.Validate())
		}
		if (Selector{}).Covers(sc) {
			t.Fatalf("the zero selector covers %+v", sc)
		}
		k := New(0, "s")
		if _, err := k.Apply("s", []Revocation{{ID: "r", Selector: s}}); (err == nil) != (s.Validate() == nil) {
			t.Fatalf("Apply says %v, Validate %v", err, s.Validate())
		}
		if got := k.Check(sc) != nil; got != covers {
			t.Fatalf("Check refuses is %v, Covers %v: %+v, %+v", got, covers, s, sc)
		}
	})
}
