"""The words of codebooks: headings of columns, names of kinds, and words for missing.

Words are compared without accents, capitals and punctuation. A word that is in no table here is not guessed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

__all__ = [
    "FACTS",
    "KINDS",
    "MISSING_WORDS",
    "NOTHING_WORDS",
    "NO_WORDS",
    "UNDECIDED_KINDS",
    "YES_WORDS",
    "fact_called",
    "folded",
    "is_ordered",
    "is_whole",
    "kind_called",
]


def folded(text: str) -> str:
    """Return a text in lower-case letters and digits only, with one space between words.

    Examples
    --------
    >>> folded("Libellé_de la  Variable ")
    'libelle de la variable'
    """
    plain = unicodedata.normalize("NFKD", text).casefold()
    kept = "".join(
        character if character.isalnum() else "" if unicodedata.combining(character) else " " for character in plain
    )
    return " ".join(kept.split())


_CALLED: Mapping[str, str] = {
    "name": "name, names, variable, variables, variable name, variablename, varname, var name, var, column, column "
    "name, columnname, colname, col name, field, field name, fieldname, variable field name, attribute, attribute "
    "name, feature, feature name, item, item name, nom, nom de la variable, nom variable, colonne, champ, "
    "variablenname, variablename, variabel, merkmal, spalte, spaltenname, feldname, feld, nombre, nombre de la "
    "variable, nombre del campo, campo, columna, nome, nome da variavel, nome della variabile, variavel, coluna, "
    "variabile, colonna, naam, variabele, kolom, kolomnaam, veld, variabelnavn, variabelnamn, nazwa, zmienna",
    "kind": "kind, type, role, types, data type, datatype, variable type, var type, vartype, field type, fieldtype, "
    "column type, storage type, measurement level, level of measurement, measure, measurement, scale, scale type, "
    "typ, datentyp, skala, skalenniveau, messniveau, art, type de donnees, type de variable, nature, tipo, tipo de "
    "dato, tipo de variable, tipo de dado, tipo di dato, soort, datatyp, data typ, storage, class",
    "low": "lowest, low, min, minimum, minimum value, min value, lower, lower bound, lower limit, from, earliest, "
    "smallest, kleinster wert, minimalwert, niedrigster, mindestwert, von, untergrenze, valeur minimale, borne "
    "inferieure, minimo, valor minimo, limite inferior, laagste, text validation min",
    "high": "highest, high, max, maximum, maximum value, max value, upper, upper bound, upper limit, to, latest, "
    "largest, greatest, grosster wert, maximalwert, hochster, hochstwert, bis, obergrenze, valeur maximale, borne "
    "superieure, maximo, valor maximo, limite superior, massimo, hoogste, text validation max",
    "range": "range, valid range, value range, range of values, permitted range, allowed range, wertebereich, "
    "plage, plage de valeurs, intervalle, rango, intervalo, intervallo, bereik, domain",
    "step": "step, steps, precision, increment, resolution, granularity, schritt, schrittweite, genauigkeit, pas, "
    "paso, passo, stap",
    "decimals": "decimals, decimal places, decimal, nachkommastellen, dezimalstellen, decimales, decimali, decimalen",
    "values": "values, value, categories, category, levels, level, options, option, codes, code, code list, codelist, "
    "allowed values, permitted values, permissible values, valid values, possible values, value labels, valuelabels, "
    "value labels and codes, coding, choices, response options, responses, answers, answer options, enum, "
    "enumeration, factor levels, choices calculations or slider labels, value coding, werte, wert, "
    "auspragungen, auspragung, kategorien, codierung, kodierung, modalites, modalite, valeurs, valeur, "
    "codage, valores, valor, categorias, opciones, codigos, codigo, opcoes, valori, codici, waarden, waarde, codering",
    "labels": "labels, label, value label, valuelabel, code label, label of value, category label, category labels, "
    "meaning, meanings, value meaning, value description, wertelabel, wertelabels, wertebezeichnung, bedeutung, "
    "libelle, libelles, libelle de la modalite, etiqueta, etiquetas, etiqueta de valor, significado, rotulo, "
    "etichetta, betekenis",
    "description": "description, desc, variable label, variablelabel, variable description, definition, question, "
    "question text, questiontext, field label, title, notes, note, comment, comments, beschreibung, bezeichnung, "
    "variablenlabel, variablenbeschreibung, frage, fragetext, erlauterung, descripcion, descripcion de la variable, "
    "pregunta, definicion, libelle de la variable, intitule, descricao, descrizione, omschrijving",
    "missing": "missing, missing codes, missing code, missing values, missing value, missing value codes, user "
    "missing, na codes, na values, na, null values, fehlende werte, fehlend, fehlwerte, valeurs manquantes, valeur "
    "manquante, manquant, manquants, valores perdidos, perdidos, valores faltantes, faltantes, valores ausentes, "
    "valori mancanti, mancanti, ontbrekend, ontbrekende waarden",
    "empty": "empty, may be empty, nullable, null, allow null, can be missing, may be missing, optional, leer, "
    "vide, vacio",
    "required": "required, mandatory, not null, required field, pflichtfeld, obligatoire, obligatorio, erforderlich",
    "special": "special, special values, special codes, sonderwerte, valeurs speciales, valores especiales",
    "other": "other, others allowed, open list, sonstige",
    "fallback": "fallback, unreadable, default for unreadable",
    "unit": "unit, units, unit of measurement, unit of measure, einheit, unite, unidad, unidade, unita, eenheid",
    "format": "format, date format, datumsformat, pattern",
}  # fmt: skip

FACTS: Mapping[str, str] = {folded(word): fact for fact, words in _CALLED.items() for word in words.split(",")}
"""What a column of a dictionary says, by every heading that it may have."""


def _set(words: str) -> frozenset[str]:
    return frozenset(map(folded, words.split(",")))


_KINDS: Mapping[str, str] = {
    "number": "number, numeric, numerical, integer, int, int8, int16, int32, int64, uint8, long, bigint, smallint, "
    "tinyint, whole number, whole, float, float32, float64, double, double precision, real, decimal, continuous, "
    "discrete, quantitative, count, counts, interval, ratio, num, metric, scale, zahl, ganzzahl, ganze zahl, "
    "dezimalzahl, kommazahl, numerisch, metrisch, stetig, numerique, entier, nombre, reel, continu, numerico, "
    "entero, numero, inteiro, intero, continua, continuo, getal, geheel getal, numeriek",
    "category": "category, categorical, categoric, nominal, factor, enum, enumeration, ordinal, ordered, ordered "
    "factor, ordered category, ordered categorical, likert, dropdown, radio, choice, single choice, multiple choice, "
    "coded, polytomous, kategorie, kategorial, kategoriell, ordinalskala, nominalskala, categoriel, categorielle, "
    "qualitatif, qualitative, ordinale, nominale, categorica, categorico, categoria, cualitativa, categorisch",
    "yes_no": "yes no, yesno, y n, boolean, bool, logical, logic, binary, dichotomous, truefalse, true false, flag, "
    "dummy, indicator, ja nein, janein, wahrheitswert, binar, booleen, logique, oui non, binaire, booleano, binario, "
    "si no, logico, ja nee",
    "date": "date, datetime, date time, timestamp, day, datum, zeitstempel, fecha, data, date ymd, date dmy, date mdy",
    "identifier": "identifier, identifier replaced, id, ids, key, primary key, record id, unique id, unique "
    "identifier, uuid, guid, kennung, schlussel, identifiant, cle, identificador, clave, chave, identificativo",
    "drop": "drop, leave out, left out, ignore, ignored, free text, freetext, text dropped, notes, memo, comment, "
    "long text, filler, skip, freitext, texte libre, texto libre, testo libero",
}  # fmt: skip

KINDS: Mapping[str, str] = {folded(word): kind for kind, words in _KINDS.items() for word in words.split(",")}
"""The type of a configuration, by every word that a kind may be called."""

WHOLE_KINDS = _set(
    "integer,int,int8,int16,int32,int64,uint8,long,bigint,smallint,tinyint,whole number,whole,count,counts,"
    "ganzzahl,ganze zahl,entier,entero,inteiro,intero,geheel getal"
)
"""Kinds of number that are whole, so their step is 1."""

ORDERED_KINDS = _set("ordinal,ordered,ordered factor,ordered category,ordered categorical,ordinale,ordinalskala")
"""Kinds of category whose values are listed in their order."""

UNDECIDED_KINDS = _set(
    "string,str,text,character,char,varchar,nvarchar,object,any,alphanumeric,zeichenkette,chaine,caractere,"
    "cadena,texto,testo,tekst,general,other,mixed,qualitative data,alpha,time,gyear,year,gyearmonth,yearmonth"
)
"""How cells are stored, which leaves open what they are: a category, an identifier or free text."""

MISSING_WORDS = _set(
    "missing,missing value,missing data,system missing,user missing,sysmis,na,n a,null,nan,none given,blank,"
    "not available,not recorded,not stated,fehlend,fehlt,fehlender wert,kein wert,manquant,valeur manquante,"
    "donnee manquante,non renseigne,perdido,valor perdido,faltante,sin dato,sin datos,mancante,ausente,"
    "sem informacao,ontbreekt,ontbrekend"
)
"""Labels that say that a code means missing; refusals and "don't know" are answers and stay values."""

NOTHING_WORDS = _set("none,no,nothing,keine,aucune,aucun,ninguno,nessuno,geen,nil")
"""What codebooks write under "missing codes" where there are none."""

YES_WORDS = _set("yes,y,true,t,1,x,ja,j,wahr,oui,o,vrai,si,s,verdadero,sim,verdadeiro,vero,waar,tak,on")
NO_WORDS = _set("no,n,false,f,0,nein,falsch,non,faux,falso,nao,nee,onwaar,nie,off,not required")
"""Words for yes and words for no, in several languages; 1 and 0 are among them."""


def fact_called(header: str) -> str | None:
    """Return what a column of a dictionary says by its heading; None for an unknown heading."""
    return FACTS.get(folded(header.partition("(")[0])) or FACTS.get(folded(header))


def kind_called(text: str) -> str | None:
    """Return the type of a configuration for a word for a kind, ignoring a width as in ``numeric(8.2)``."""
    return KINDS.get(_bare(text))


def is_whole(text: str) -> bool:
    """Whether a word for a kind means whole numbers."""
    return _bare(text) in WHOLE_KINDS


def is_ordered(text: str) -> bool:
    """Whether a word for a kind means categories in their order."""
    return _bare(text) in ORDERED_KINDS


def _bare(text: str) -> str:
    return folded(text.partition("(")[0]) or folded(text)
