package simulator

import "maps"

// table keeps rows by ID. Rows are never changed in place, so a row that was read stays good
// without the lock. The indexes keep the filters of clients fast with many thousand rows.
type table[T any] struct {
	rows   map[string]T
	fields map[string]func(T) string
	index  map[indexKey]map[string]bool // to IDs
}

type indexKey struct{ field, value string }

func newTable[T any](fields map[string]func(T) string) *table[T] {
	return &table[T]{rows: map[string]T{}, fields: fields, index: map[indexKey]map[string]bool{}}
}

func (t *table[T]) put(id string, row T) {
	t.drop(id)
	t.rows[id] = row
	for field, value := range t.fields {
		key := indexKey{field, value(row)}
		if t.index[key] == nil {
			t.index[key] = map[string]bool{}
		}
		t.index[key][id] = true
	}
}

func (t *table[T]) drop(id string) {
	row, ok := t.rows[id]
	if !ok {
		return
	}
	delete(t.rows, id)
	for field, value := range t.fields {
		key := indexKey{field, value(row)}
		if delete(t.index[key], id); len(t.index[key]) == 0 {
			delete(t.index, key)
		}
	}
}

// find returns the rows that have one of the values in a field: the ID, or one with an index.
func (t *table[T]) find(field string, values ...string) map[string]T {
	found := map[string]T{}
	for _, value := range values {
		ids := t.index[indexKey{field, value}]
		if field == "id" {
			ids = map[string]bool{value: true}
		}
		for id := range ids {
			if row, ok := t.rows[id]; ok {
				found[id] = row
			}
		}
	}
	return found
}

// search narrows the rows with the query's first field that has an index; all rows when there is none.
func (t *table[T]) search(query map[string][]string) map[string]T {
	if values := query["id"]; values != nil {
		return t.find("id", values...)
	}
	for field := range t.fields {
		if values := query[field]; values != nil {
			return t.find(field, values...)
		}
	}
	return maps.Clone(t.rows)
}
