package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/cmd/cli"
)

func newAuditExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export FILE...",
		Short: "Print records in another format, for systems that read that",
		Long: "Print records as OCSF events of the class API Activity, a line of JSON each. Lines about the chain are left out. The files\n" +
			"stay as they are, and are what sidecar audit verify is for; each event holds its record, byte for byte, in unmapped.toolgate.",
		Args: needFiles,
	}
	format := cmd.Flags().String("format", "ocsf", "the `format`: ocsf")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *format != "ocsf" {
			return fmt.Errorf("found --format %q, expected ocsf", *format)
		}
		if err := exportOCSF(cmd.InOrStdin(), cmd.OutOrStdout(), args); err != nil {
			return cli.Wrong(err)
		}
		return nil
	}
	return cmd
}

func exportOCSF(stdin io.Reader, out io.Writer, names []string) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for _, name := range audit.InOrder(names) {
		n := 0
		var errs []error
		err := readRecords(stdin, name, eachLine(func(line []byte) {
			n++
			if len(errs) > 0 {
				return
			}
			r, ok := parseLine(line)
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("%s:%d: found no record", name, n))
			case r.call():
				event, err := newOCSF(r, line)
				if err == nil {
					err = e.Encode(event)
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s:%d: %w", name, n, err))
				}
			}
		}))
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
	}
	return nil
}

// ocsfVersion is the version of the schema whose names are used. They are all of its core: no profile is needed. A test holds events to
// an excerpt of the schema.
const ocsfVersion = "1.6.0"

// ocsf is an event of the class API Activity, 6003 (Open Cybersecurity Schema Framework, events/application/api_activity.json).
type ocsf struct {
	ActivityID   int           `json:"activity_id"`
	ActivityName string        `json:"activity_name"`
	CategoryUID  int           `json:"category_uid"`
	ClassUID     int           `json:"class_uid"`
	TypeUID      int           `json:"type_uid"`
	SeverityID   int           `json:"severity_id"`
	Time         int64         `json:"time"` // milliseconds since 1970
	Duration     int64         `json:"duration,omitempty"`
	StatusID     int           `json:"status_id"`
	StatusCode   string        `json:"status_code,omitempty"`
	StatusDetail string        `json:"status_detail,omitempty"`
	Message      string        `json:"message"`
	Metadata     ocsfMetadata  `json:"metadata"`
	Actor        ocsfActor     `json:"actor"`
	API          ocsfAPI       `json:"api"`
	Source       ocsfEndpoint  `json:"src_endpoint"`
	Destination  *ocsfEndpoint `json:"dst_endpoint,omitempty"`
	Request      *ocsfRequest  `json:"http_request,omitempty"`
	Response     *ocsfResponse `json:"http_response,omitempty"`
	Unmapped     ocsfUnmapped  `json:"unmapped"`
}

type ocsfMetadata struct {
	Version     string      `json:"version"`
	Product     ocsfProduct `json:"product"`
	UID         string      `json:"uid"`
	EventCode   string      `json:"event_code"`
	Sequence    uint64      `json:"sequence,omitempty"`
	Original    string      `json:"original_time"`
	Correlation string      `json:"correlation_uid,omitempty"`
	TenantUID   string      `json:"tenant_uid,omitempty"`
	LogName     string      `json:"log_name"`
}

type ocsfProduct struct {
	Name   string `json:"name"`
	Vendor string `json:"vendor_name"`
}

type ocsfActor struct {
	AppName string    `json:"app_name,omitempty"`
	AppUID  string    `json:"app_uid,omitempty"`
	User    *ocsfName `json:"user,omitempty"`
	Session *ocsfName `json:"session,omitempty"`
	IDP     *ocsfName `json:"idp,omitempty"`
}

// ocsfName is an object that is known by its name or uid.
type ocsfName struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

type ocsfAPI struct {
	Operation string        `json:"operation"`
	Service   *ocsfName     `json:"service,omitempty"`
	Request   ocsfName      `json:"request"`
	Response  *ocsfResponse `json:"response,omitempty"`
}

type ocsfEndpoint struct {
	Name     string `json:"name,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	Port     int    `json:"port,omitempty"`
	Service  string `json:"svc_name,omitempty"`
}

type ocsfRequest struct {
	Method string   `json:"http_method,omitempty"` // one of the schema's
	URL    *ocsfURL `json:"url,omitempty"`
}

// ocsfURL must have a path or a text.
type ocsfURL struct {
	Hostname string `json:"hostname"`
	Port     int    `json:"port,omitempty"`
	Scheme   string `json:"scheme"`
	Path     string `json:"path,omitempty"`
	Text     string `json:"url_string"` // without path: there is only a pattern of one, if that
}

type ocsfResponse struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
}

type ocsfUnmapped struct {
	Record json.RawMessage `json:"toolgate"`
}

func newOCSF(r *recordLine, line []byte) (*ocsf, error) {
	at, err := time.Parse(time.RFC3339, r.Time)
	if err != nil {
		return nil, errors.New("found a record without a time")
	}
	id, name := ocsfActivity(r.Method)
	o := &ocsf{
		ActivityID: id, ActivityName: name, CategoryUID: 6, ClassUID: 6003, TypeUID: 600300 + id, SeverityID: 1, Time: at.UnixMilli(),
		Duration: int64(math.Round(r.Total)), StatusID: 1, StatusCode: r.Code, StatusDetail: r.ErrorClass, Message: r.String(),
		Metadata: ocsfMetadata{
			Version: ocsfVersion, Product: ocsfProduct{"Toolgate", "Toolgate"}, UID: r.ID, EventCode: r.Kind, Sequence: r.Seq,
			Original: r.Time, Correlation: r.TraceID, TenantUID: r.Tenant, LogName: "audit",
		},
		Actor:    ocsfActor{AppName: r.Agent, AppUID: r.Tool, User: ocsfNamed("", r.Subject), Session: ocsfNamed("", r.Run), IDP: ocsfNamed(r.Issuer, "")},
		API:      ocsfAPI{Operation: r.operation(), Service: ocsfNamed(r.Host, ""), Request: ocsfName{UID: r.ID}},
		Source:   ocsfEndpoint{Name: "listener " + r.Listener, Service: r.Tool},
		Unmapped: ocsfUnmapped{line},
	}
	if o.Actor == (ocsfActor{}) {
		o.Actor.AppName = "unknown"
	}
	switch {
	case r.Kind == "intent":
		o.Metadata.UID, o.StatusID = r.ID+" intent", 0 // how it ends is not known yet
	case r.Decision == "deny":
		o.SeverityID, o.StatusID = 3, 2
	case r.Code != "" || r.ErrorClass != "":
		o.SeverityID, o.StatusID = 2, 2
	}
	if r.Host != "" {
		o.Destination = &ocsfEndpoint{Hostname: r.Host, Port: r.Port}
		o.Request = &ocsfRequest{ocsfMethod(r.Method), r.url()}
	}
	if r.Status != 0 {
		o.Response = &ocsfResponse{Code: r.Status}
		o.API.Response = &ocsfResponse{r.Status, r.Code}
	}
	return o, nil
}

// ocsfMethod is a method that the schema knows, or "".
func ocsfMethod(method string) string {
	switch method {
	case "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE":
		return method
	}
	return ""
}

// ocsfActivity is what a method does, by the names of the class.
func ocsfActivity(method string) (int, string) {
	switch method {
	case "POST":
		return 1, "Create"
	case "GET", "HEAD":
		return 2, "Read"
	case "PUT", "PATCH":
		return 3, "Update"
	case "DELETE":
		return 4, "Delete"
	case "":
		return 0, "Unknown"
	}
	return 99, method
}

func ocsfNamed(name, uid string) *ocsfName {
	if name == "" && uid == "" {
		return nil
	}
	return &ocsfName{name, uid}
}

// url is where a request goes; of a tunnel that is not known.
func (r *recordLine) url() *ocsfURL {
	if r.Scheme == "" {
		return nil
	}
	u := url.URL{Scheme: r.Scheme, Host: r.Host}
	switch {
	case r.Port != 0:
		u.Host = net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
	case strings.Contains(r.Host, ":"):
		u.Host = "[" + r.Host + "]"
	}
	return &ocsfURL{Hostname: r.Host, Port: r.Port, Scheme: r.Scheme, Path: r.path(), Text: u.String()}
}

// path is the pattern of the rule that matched; the record has no other path.
func (r *recordLine) path() string {
	if strings.HasPrefix(r.Path, "/") {
		return r.Path
	}
	return ""
}

func (r *recordLine) operation() string {
	if op := strings.TrimSpace(r.Method + " " + r.path()); op != "" {
		return op
	}
	return "unknown"
}
