package simulator

import (
	"cmp"
	"net/http"
	"strings"
)

// usualMessages is what a service says when there is nothing more to tell.
var usualMessages = map[Service]map[int]string{
	Keystone: {
		http.StatusUnauthorized: "The request you have made requires authentication.",
	},
	Nova: {
		http.StatusForbidden:             "Policy doesn't allow this request to be performed.",
		http.StatusNotFound:              "The resource could not be found.",
		http.StatusRequestEntityTooLarge: "This request was rate-limited.",
		http.StatusTooManyRequests:       "This request was rate-limited.",
		http.StatusInternalServerError: "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ " +
			"and attach the Nova API log if possible.",
	},
	Neutron: {
		http.StatusForbidden:           "This request is disallowed by policy",
		http.StatusNotFound:            "The resource could not be found.",
		http.StatusInternalServerError: "Request Failed: internal server error while processing your request.",
	},
}

var novaFaults = map[int]string{
	http.StatusBadRequest:            "badRequest",
	http.StatusForbidden:             "forbidden",
	http.StatusNotFound:              "itemNotFound",
	http.StatusRequestEntityTooLarge: "overLimit",
	http.StatusTooManyRequests:       "overLimit",
}

// errorAnswer is a failure in a service's own shape. An empty message is the service's usual one.
func (s *Simulator) errorAnswer(service Service, status int, message string) answer {
	if status == http.StatusUnauthorized {
		service = Keystone // its middleware refuses tokens in front of the other services
	}
	title := http.StatusText(status)
	message = cmp.Or(message, usualMessages[service][status], title)
	a := answer{status: status, header: http.Header{}}
	switch service {
	case Keystone:
		a.body = map[string]any{"error": map[string]any{"code": status, "title": title, "message": message}}
	case Nova:
		a.header.Set("Content-Type", "application/json; charset=UTF-8")
		kind := cmp.Or(novaFaults[status], "computeFault")
		a.body = map[string]any{kind: map[string]any{"code": status, "message": message}}
	case Neutron:
		kind := "HTTP" + strings.ReplaceAll(title, " ", "")
		if status == http.StatusForbidden {
			kind = "PolicyNotAuthorized"
		}
		a.body = neutronError(kind, message)
	}
	if status == http.StatusUnauthorized {
		a.header.Set("WWW-Authenticate", `Keystone uri="`+s.AuthURL()+`"`)
	}
	return a
}

func neutronError(kind, message string) map[string]any {
	return map[string]any{"NeutronError": map[string]any{"type": kind, "message": message, "detail": ""}}
}
