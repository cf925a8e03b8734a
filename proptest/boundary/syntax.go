package boundary

import (
	"go/ast"
	"go/token"
	"slices"
)

// BodyFile is the one file of the web packages that reads a request's body, through the route's own limit. Fiber's ways
// of reading it know no limit once bodies are streamed.
const BodyFile = "server/api/middleware.go"

// bodyReaders are the methods of Fiber and fasthttp that read a request's body.
var bodyReaders = []string{"Body", "BodyRaw", "BodyParser", "BodyStream", "RequestBodyStream", "PostBody", "FormValue", "FormFile",
	"MultipartForm", "PostArgs"}

// syntax has, for each banned thing, a function that names it when n, a node of file, is it, and otherwise returns "".
var syntax = map[string]func(file string, n ast.Node) string{
	"go": func(_ string, n ast.Node) string {
		if _, ok := n.(*ast.GoStmt); ok {
			return "starts a goroutine"
		}
		return ""
	},
	"select": func(_ string, n ast.Node) string {
		if _, ok := n.(*ast.SelectStmt); ok {
			return "selects over channels"
		}
		return ""
	},
	"chan": func(_ string, n ast.Node) string {
		switch n := n.(type) {
		case *ast.ChanType:
			return "has a channel type"
		case *ast.SendStmt:
			return "sends on a channel"
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				return "receives from a channel"
			}
		}
		return ""
	},
	"map": func(_ string, n ast.Node) string {
		if _, ok := n.(*ast.MapType); ok {
			return "has a map type, whose order is random"
		}
		return ""
	},
	"float": func(_ string, n ast.Node) string {
		switch n := n.(type) {
		case *ast.Ident:
			if slices.Contains([]string{"float32", "float64", "complex64", "complex128"}, n.Name) {
				return "uses " + n.Name
			}
		case *ast.BasicLit:
			if n.Kind == token.FLOAT || n.Kind == token.IMAG {
				return "has the constant " + n.Value
			}
		}
		return ""
	},
	"now": func(_ string, n ast.Node) string {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		pkg, ok := selector.X.(*ast.Ident)
		if ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker", "Local"}, selector.Sel.Name) {
			return "asks the machine's clock (time." + selector.Sel.Name + ")"
		}
		return ""
	},
	"body": func(file string, n ast.Node) string {
		call, ok := n.(*ast.CallExpr)
		if !ok || file == BodyFile {
			return ""
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(bodyReaders, selector.Sel.Name) || isResponse(selector.X) {
			return ""
		}
		return "reads a request's body with " + selector.Sel.Name + ", outside " + BodyFile
	},
}

// isResponse reports whether x is a call such as c.Response(), whose Body is what we are about to send.
func isResponse(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "Response"
}
