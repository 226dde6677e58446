package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// boardBuilder makes a dashboard of the classic schema. The second one is preferred by its makers, and only the newest versions of
// Grafana read it from a ConfigMap.
//
//lint:ignore SA1019 see above
type boardBuilder = dashboard.DashboardBuilder

// series is a query and how its lines are called; a legend in Grafana's form, such as {{pod}}.
type series struct{ expr, legend string }

// source is the data source that the reader chose.
func source() common.DataSourceRef {
	kind, uid := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}

// board begins a dashboard with the variables that its queries use besides the data source: label names of metrics.
func board(title, description string, variables ...*dashboard.QueryVariableBuilder) *boardBuilder {
	//lint:ignore SA1019 as for boardBuilder
	b := dashboard.NewDashboardBuilder("Toolgate / "+title).
		Description(description).Tags([]string{"toolgate"}).Timezone(common.TimeZoneBrowser).
		Time("now-3h", "now").Refresh("30s").Tooltip(dashboard.DashboardCursorSyncCrosshair).Readonly().
		Link(dashboard.NewDashboardLinkBuilder("Toolgate").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"toolgate"}).
			AsDropdown(true).IncludeVars(true).KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	for _, v := range variables {
		b.WithVariable(v)
	}
	return b
}

// variable lets the reader choose among the values of a label, all of them to begin with.
func variable(name, label, query string) *dashboard.QueryVariableBuilder {
	all, text := "$__all", "All"
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source()).Query(dashboard.StringOrMap{String: &query}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{Text: dashboard.StringOrArrayOfString{String: &text}, Value: dashboard.StringOrArrayOfString{String: &all}})
}

// graph is a panel of lines over time.
func graph(title, description, unit string, lines ...series) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().Title(title).Description(description).Datasource(source()).Unit(unit).Min(0).
		Height(8).Span(12).FillOpacity(10).LineWidth(1).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	for i, l := range lines {
		p.WithTarget(prometheus.NewDataqueryBuilder().Expr(l.expr).LegendFormat(l.legend).RefId(string(rune('A' + i))).Datasource(source()).Range())
	}
	return p
}

// number is a panel of one number, which is red from bad on; a bad of 0 is never red.
func number(title, description, unit, expr string, bad float64) *stat.PanelBuilder {
	steps := []dashboard.Threshold{{Color: "green"}}
	if bad > 0 {
		steps = append(steps, dashboard.Threshold{Value: &bad, Color: "red"})
	}
	return stat.NewPanelBuilder().Title(title).Description(description).Datasource(source()).Unit(unit).Height(4).Span(4).
		GraphMode(common.BigValueGraphModeArea).ColorMode(common.BigValueColorModeValue).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}).Values(false)).
		Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)).
		WithTarget(prometheus.NewDataqueryBuilder().Expr(expr).RefId("A").Datasource(source()).Range())
}

func row(title string) *dashboard.RowBuilder { return dashboard.NewRowBuilder(title) }
