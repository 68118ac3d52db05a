"""The paper reproduced: its settings, studies, figures and tables; only `cli` imports this room."""
