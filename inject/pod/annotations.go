package pod

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/inject/settings"
)

// plan is what the pod's author and its namespace ask for.
type plan struct {
	mode        settings.Mode
	tools       []string          // in the order of their ports
	of          map[string]string // container: tool; a container without one is missing
	java        bool
	passthrough []string
	loopback    []loopbackPath
	uid         map[string]int64 // container: user id; in transparent mode of all, else of those that say
}

// loopbackPath lets one container connect to a port of another.
type loopbackPath struct {
	from, to string
	port     uint16
}

var known = []string{
	AnnotationTool, AnnotationTools, AnnotationMode, AnnotationCPURequest, AnnotationCPULimit, AnnotationMemoryRequest,
	AnnotationMemoryLimit, AnnotationPassthrough, AnnotationJava, AnnotationLoopback,
}

var toolName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,62}$`)

// annotations reads all of ours.
func (in *injection) annotations() error {
	for _, key := range slices.Sorted(maps.Keys(in.pod.Annotations)) {
		if strings.HasPrefix(key, Prefix) && key != StatusKey && key != NamespaceInject && !slices.Contains(known, key) {
			return refuse(BadAnnotation, "the annotation %s is none of Toolgate's: correct its name; there are %s", key, strings.Join(known, ", "))
		}
	}
	for _, read := range []func() error{in.readMode, in.readTools, in.readJava, in.readPassthrough, in.readLoopback} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// annotation returns one of ours, and refuses it empty: whoever wrote it meant something.
func (in *injection) annotation(key string) (value string, there bool, err error) {
	value, there = in.pod.Annotations[key]
	if value = strings.TrimSpace(value); there && value == "" {
		return "", true, refuse(BadAnnotation, "the annotation %s is empty: give it a value or remove it", key)
	}
	return value, there, nil
}

func (in *injection) readMode() error {
	mode, there, err := in.annotation(AnnotationMode)
	in.plan.mode = settings.Mode(mode)
	switch {
	case err != nil:
		return err
	case !there:
		in.plan.mode = in.settings.Mode
	case in.plan.mode != settings.Explicit && in.plan.mode != settings.Transparent:
		return refuse(BadAnnotation, "the annotation %s is %q: set it to %s or %s", AnnotationMode, mode, settings.Explicit, settings.Transparent)
	}
	if in.settings.RequireFence && in.plan.mode != settings.Transparent {
		return refuse(Unfenced, "the pod is in mode explicit, and the platform wants the fence around every pod: set the annotation %s to %s", AnnotationMode, settings.Transparent)
	}
	return nil
}

// readTools assigns a tool to each container. Tools are numbered in the order in which they are named, not in that of containers, since
// another webhook may put containers in between two calls, and their ports must stay.
func (in *injection) readTools() error {
	in.plan.of = map[string]string{}
	list, _, err := in.annotation(AnnotationTools)
	if err != nil {
		return err
	}
	for _, entry := range split(list) {
		container, tool, ok := strings.Cut(entry, "=")
		container, tool = strings.TrimSpace(container), strings.TrimSpace(tool)
		switch {
		case !ok || container == "" || tool == "":
			return refuse(BadAnnotation, "the annotation %s has the entry %q: write container=tool, separated by commas", AnnotationTools, entry)
		case in.container(container) == nil:
			return refuse(BadAnnotation, "the annotation %s names the container %s, which the pod has not: name one of %s", AnnotationTools, container, in.names())
		case in.plan.of[container] != "":
			return refuse(BadAnnotation, "the annotation %s gives the container %s two tools, %s and %s: give it one", AnnotationTools, container, in.plan.of[container], tool)
		}
		if err := in.use(tool, AnnotationTools); err != nil {
			return err
		}
		in.plan.of[container] = tool
	}
	return in.defaultTool()
}

// defaultTool is of the containers that toolgate/tools leaves out.
func (in *injection) defaultTool() error {
	tool, there, err := in.annotation(AnnotationTool)
	where := AnnotationTool
	if !there {
		tool, where = in.namespace.Labels[NamespaceTool], "the namespace's label "+NamespaceTool
	}
	switch {
	case err != nil:
		return err
	case tool == "" && len(in.plan.of) == 0:
		return refuse(NoTool, "no tool is named for this pod: set the annotation %s to the name of a manifest, or label the namespace %s", AnnotationTool, NamespaceTool)
	case tool != "":
		if err := in.use(tool, where); err != nil {
			return err
		}
	}
	for _, c := range in.containers() {
		switch {
		case in.plan.of[c.Name] != "":
		case tool != "":
			in.plan.of[c.Name] = tool
		case in.plan.mode == settings.Transparent:
			in.warnf("the container %s has no tool, so it reaches nothing outside the pod; name one in %s or %s", c.Name, AnnotationTools, AnnotationTool)
		default:
			in.warnf("the container %s has no tool, so nothing sends its calls to the sidecar; name one in %s or %s", c.Name, AnnotationTools, AnnotationTool)
		}
	}
	return nil
}

// use numbers a tool.
func (in *injection) use(tool, where string) error {
	if !toolName.MatchString(tool) {
		return refuse(BadAnnotation, "%s names the tool %q: a tool's name has a-z, 0-9, _ . - and begins with a letter", where, tool)
	}
	if !slices.Contains(in.plan.tools, tool) {
		in.plan.tools = append(in.plan.tools, tool)
	}
	if len(in.plan.tools) > perPort {
		return refuse(Unsupported, "the pod has more than %d tools: split it", perPort)
	}
	return nil
}

func (in *injection) readJava() error {
	v, there, err := in.annotation(AnnotationJava)
	if err != nil || !there {
		in.plan.java = in.settings.CA.Java
		return err
	}
	on, err := strconv.ParseBool(v)
	if err != nil || v != "true" && v != "false" {
		return refuse(BadAnnotation, "the annotation %s is %q: set it to \"true\" or \"false\"", AnnotationJava, v)
	}
	in.plan.java = on
	return nil
}

func (in *injection) readPassthrough() error {
	list, _, err := in.annotation(AnnotationPassthrough)
	if err != nil {
		return err
	}
	for _, host := range split(list) {
		if !slices.ContainsFunc(in.settings.Passthrough, func(allowed string) bool { return covers(allowed, host) }) {
			return refuse(BadAnnotation, "the annotation %s names %q, which the platform does not let through unseen: remove it, or have the host added to passthrough in the injector's settings", AnnotationPassthrough, host)
		}
		in.plan.passthrough = append(in.plan.passthrough, host)
	}
	return nil
}

func (in *injection) readLoopback() error {
	list, there, err := in.annotation(AnnotationLoopback)
	if err != nil {
		return err
	}
	if there && in.plan.mode != settings.Transparent {
		in.warnf("the annotation %s has no effect in mode explicit, which keeps containers from nothing", AnnotationLoopback)
	}
	for _, entry := range split(list) {
		from, rest, ok1 := strings.Cut(entry, "=")
		to, digits, ok2 := strings.Cut(rest, ":")
		port, err := strconv.ParseUint(digits, 10, 16)
		if !ok1 || !ok2 || err != nil || port == 0 {
			return refuse(BadAnnotation, "the annotation %s has the entry %q: write container=container:port, separated by commas", AnnotationLoopback, entry)
		}
		for _, name := range []string{from, to} {
			if in.container(name) == nil {
				return refuse(BadAnnotation, "the annotation %s names the container %s, which the pod has not: name one of %s", AnnotationLoopback, name, in.names())
			}
		}
		if slices.Contains(reservedPorts, int32(port)) || inTools(int32(port)) {
			return refuse(BadAnnotation, "the annotation %s names port %d, which the sidecar listens on: use another port", AnnotationLoopback, port)
		}
		in.plan.loopback = append(in.plan.loopback, loopbackPath{from, to, uint16(port)})
	}
	return nil
}

func (in *injection) names() string {
	var names []string
	for _, c := range in.containers() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// split reads a list separated by commas.
func split(list string) []string {
	var out []string
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			out = append(out, entry)
		}
	}
	return out
}

// covers reports whether a pattern, a host or *.host, covers a host.
func covers(pattern, host string) bool {
	if below, wild := strings.CutPrefix(pattern, "*"); wild {
		return len(host) > len(below) && strings.HasSuffix(host, below)
	}
	return pattern == host
}
