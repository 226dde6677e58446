package console

import (
	"errors"
	"net/http"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/login"
)

// loginPage is the page where people log in.
type loginPage struct {
	Issuer  string // where; empty: by a token
	Next    string
	Lost    bool // a form was sent while nobody was logged in, and did nothing
	Out     bool // who was here has logged out
	Refused *login.Error
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	next := localPath(q.Get("next"))
	c.showLogin(w, http.StatusOK, loginPage{Next: next, Out: q.Has("out"), Lost: len(next) > 1})
}

func (c *Console) showLogin(w http.ResponseWriter, status int, l loginPage) {
	if c.OIDC != nil {
		l.Issuer = c.OIDC.Host()
	}
	if err := c.write(w, status, "login", &page{Title: "Log in", Body: l}); err != nil {
		c.fail(w, nil, err)
	}
}

// refused shows why somebody could not log in.
func (c *Console) refused(w http.ResponseWriter, next string, err error) {
	var why *login.Error
	if !errors.As(err, &why) {
		c.fail(w, nil, err)
		return
	}
	c.Log.Warn("login refused", "reason", why.Reason, "error", why)
	status := http.StatusForbidden
	if why.Reason == login.IssuerUnreachable {
		status = http.StatusBadGateway
	}
	c.showLogin(w, status, loginPage{Next: next, Refused: why})
}

func (c *Console) loginWithToken(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.PostFormValue("next"))
	if c.OIDC != nil {
		c.fail(w, nil, &central.Error{Code: central.Forbidden, Text: "people log in at the issuer; tokens are for the API"})
		return
	}
	p, err := c.Sessions.BeginWith(w, r.PostFormValue("token"))
	if err != nil {
		c.refused(w, next, err)
		return
	}
	c.welcome(w, r, p, next)
}

func (c *Console) welcome(w http.ResponseWriter, r *http.Request, p central.Principal, next string) {
	c.Log.Info("login", "by", p.Name, "roles", p.Roles, "tenants", p.Tenants)
	http.Redirect(w, r, localPath(next), http.StatusSeeOther)
}

func (c *Console) loginAtIssuer(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if c.OIDC == nil {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	to, err := c.OIDC.Start(w, r, next)
	if err != nil {
		c.refused(w, next, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (c *Console) loginBack(w http.ResponseWriter, r *http.Request) {
	if c.OIDC == nil {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	p, next, err := c.OIDC.Finish(w, r)
	if err != nil {
		c.refused(w, next, err)
		return
	}
	c.welcome(w, r, p, next)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	c.Sessions.End(w)
	http.Redirect(w, r, "/login?out=1", http.StatusSeeOther)
}
