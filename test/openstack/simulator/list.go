package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var (
	portFilters = []string{
		"id", "name", "network_id", "tenant_id", "project_id", "mac_address", "admin_state_up", "status",
		"device_id", "device_owner", "fixed_ips", "description",
	}
	floatingIPFilters = []string{
		"id", "tenant_id", "project_id", "floating_ip_address", "floating_network_id", "router_id", "port_id",
		"fixed_ip_address", "status", "description",
	}
	listOptions = []string{"limit", "marker", "page_reverse", "fields"}
)

// list filters, pages and trims rows as Neutron does. Filters are joined by AND, the values of a
// repeated one by OR; no match is an empty list.
func (s *Simulator) list(rt route, r *http.Request, kind string, rows []map[string]any, filters []string) answer {
	query, collection := r.URL.Query(), kind+"s"
	for key, values := range query {
		if slices.Contains(listOptions, key) {
			continue
		}
		if !slices.Contains(filters, key) {
			return s.errorAnswer(Neutron, http.StatusBadRequest, fmt.Sprintf("['%s'] is invalid attribute for filtering", key))
		}
		rows = slices.DeleteFunc(rows, func(row map[string]any) bool { return !matches(row[key], values) })
	}
	slices.SortFunc(rows, func(a, b map[string]any) int { return cmp.Compare(a["id"].(string), b["id"].(string)) })

	limit, err := strconv.Atoi(cmp.Or(query.Get("limit"), "0"))
	if err != nil || limit < 0 {
		return s.errorAnswer(Neutron, http.StatusBadRequest,
			fmt.Sprintf("Limit must be an integer 0 or greater and not '%s'", query.Get("limit")))
	}
	if s.config.MaxPage > 0 && (limit == 0 || limit > s.config.MaxPage) {
		limit = s.config.MaxPage
	}
	body := map[string]any{}
	if limit > 0 {
		marker, reverse := query.Get("marker"), strings.EqualFold(query.Get("page_reverse"), "true")
		if marker != "" && !s.exists(marker) {
			name := strings.ToUpper(kind[:1]) + kind[1:]
			return answer{status: http.StatusNotFound,
				body: neutronError(name+"NotFound", fmt.Sprintf("%s %s could not be found.", name, marker))}
		}
		rows = page(rows, limit, marker, reverse)
		if pageLinks := s.pageLinks(rt, collection, query, rows, limit, reverse); len(pageLinks) > 0 {
			body[collection+"_links"] = pageLinks
		}
	}
	if fields := query["fields"]; fields != nil {
		for _, row := range rows {
			for key := range row {
				if !slices.Contains(fields, key) {
					delete(row, key)
				}
			}
		}
	}
	body[collection] = rows
	return answer{status: http.StatusOK, body: body}
}

func matches(field any, values []string) bool {
	return slices.ContainsFunc(values, func(value string) bool {
		addresses, ok := field.([]any)
		if !ok {
			return strings.EqualFold(fmt.Sprint(field), value)
		}
		key, want, _ := strings.Cut(value, "=") // fixed_ips=ip_address=10.0.0.5
		return slices.ContainsFunc(addresses, func(entry any) bool { return entry.(map[string]any)[key] == want })
	})
}

func (s *Simulator) exists(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, port := s.ports.rows[id]
	_, floatingIP := s.floatingIPs.rows[id]
	return port || floatingIP
}

func page(rows []map[string]any, limit int, marker string, reverse bool) []map[string]any {
	if marker != "" {
		rows = slices.DeleteFunc(rows, func(row map[string]any) bool {
			if reverse {
				return row["id"].(string) >= marker
			}
			return row["id"].(string) <= marker
		})
	}
	if reverse {
		return rows[max(0, len(rows)-limit):]
	}
	return rows[:min(limit, len(rows))]
}

// pageLinks follows Neutron: a full page has a next one, even if that turns out empty, and there
// is always a page before.
func (s *Simulator) pageLinks(rt route, collection string, query url.Values, rows []map[string]any, limit int, reverse bool) []any {
	link := func(rel string, row int) any {
		query.Del("marker")
		query.Del("page_reverse")
		if len(rows) > 0 {
			query.Set("marker", rows[row]["id"].(string))
		}
		if rel == "previous" {
			query.Set("page_reverse", "True")
		}
		return map[string]any{"rel": rel, "href": s.url + rt.base + "/v2.0/" + collection + "?" + query.Encode()}
	}
	made := []any{}
	if len(rows) >= limit || reverse {
		made = append(made, link("next", len(rows)-1))
	}
	if len(rows) >= limit || !reverse {
		made = append(made, link("previous", 0))
	}
	return made
}
