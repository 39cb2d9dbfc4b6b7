--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: public; Type: SCHEMA; Schema: -; Owner: -
--

-- *not* creating schema, since initdb creates it


--
-- Name: SCHEMA public; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON SCHEMA public IS '';


--
-- Name: hermitage_refuse(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hermitage_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.accounts (
    id character varying(36) NOT NULL,
    name character varying(120) NOT NULL,
    neighbours character varying(20),
    protects text,
    id_column text,
    rows_per_unit bigint,
    disagreeing boolean DEFAULT false NOT NULL,
    epsilon_cap double precision,
    delta_cap double precision,
    frozen boolean NOT NULL,
    keyed boolean DEFAULT true NOT NULL,
    split_key bytea,
    created bigint NOT NULL
);


--
-- Name: charges; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.charges (
    account_id character varying(36) NOT NULL,
    "position" bigint NOT NULL,
    charge_id character varying(36) NOT NULL,
    run_id character varying(36) NOT NULL,
    state character varying(12) NOT NULL,
    purpose text NOT NULL,
    who character varying(120) NOT NULL,
    neighbours character varying(20) NOT NULL,
    epsilon double precision NOT NULL,
    delta double precision NOT NULL,
    mu_squared_units bigint NOT NULL,
    slack_units bigint NOT NULL,
    coordinates bigint NOT NULL,
    additive_delta_units bigint NOT NULL,
    pure_units bigint DEFAULT '0'::bigint NOT NULL,
    accountant text NOT NULL,
    certificate_id text,
    "time" bigint NOT NULL,
    previous character varying(64) NOT NULL,
    digest character varying(64) NOT NULL
);


--
-- Name: decisions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.decisions (
    account_id character varying(36) NOT NULL,
    number bigint NOT NULL,
    charges bigint NOT NULL,
    kind character varying(12) NOT NULL,
    body text NOT NULL,
    who character varying(120) NOT NULL,
    "time" bigint NOT NULL,
    previous character varying(64) NOT NULL,
    digest character varying(64) NOT NULL
);


--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    account_id character varying(36),
    run_id character varying(36),
    table_id character varying(36),
    who character varying(120) NOT NULL,
    detail text NOT NULL,
    "time" bigint NOT NULL
);


--
-- Name: events_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: events_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.events_id_seq OWNED BY public.events.id;


--
-- Name: releases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.releases (
    id character varying(36) NOT NULL,
    run_id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    certificate_id text NOT NULL,
    certificate_digest character varying(64) NOT NULL,
    attestations text NOT NULL,
    who character varying(120) NOT NULL,
    sealed bigint NOT NULL
);


--
-- Name: runs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.runs (
    id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    table_id character varying(36),
    test_table_id character varying(36),
    owner character varying(120) NOT NULL,
    config text NOT NULL,
    state character varying(10) NOT NULL,
    phase text NOT NULL,
    step bigint NOT NULL,
    steps bigint NOT NULL,
    losses text NOT NULL,
    message text NOT NULL,
    incident_id character varying(16),
    cancel_requested bigint,
    gpus integer NOT NULL,
    cpus integer NOT NULL,
    place bigint,
    host text,
    pid bigint,
    pid_created double precision,
    claimed boolean NOT NULL,
    heartbeat bigint,
    gpu text,
    device text,
    created bigint NOT NULL,
    started bigint,
    finished bigint
);


--
-- Name: store_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.store_version (
    number integer NOT NULL,
    since bigint
);


--
-- Name: tables; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tables (
    id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    name character varying(120) NOT NULL,
    kind character varying(10) NOT NULL,
    size bigint NOT NULL,
    state character varying(10) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    keep_until bigint,
    form text,
    schema text,
    created bigint NOT NULL,
    deleted bigint
);


--
-- Name: events id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events ALTER COLUMN id SET DEFAULT nextval('public.events_id_seq'::regclass);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.accounts VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 'town', 'replace_one', 'person', NULL, 1, false, 6, 1e-05, false, true, NULL, 1795330581);


--
-- Data for Name: charges; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 1, '4a645b0e-afa9-4dc9-87aa-8374c469157e', 'ea4eac05-48f8-435b-a126-45499d2573f1', 'reserved', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '7bb508c8ac0949aefe49a3bd6badaf0b5f260a055ce6bc28931d358ca48dff7a', '00a6cf34277b8107c244e5a48dc95d6873cc98707d6d6eef7d5630dba530b49e');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 2, 'c7fb1404-1236-40b4-89ba-3d0300c6aa6e', 'd521a4b3-eb3d-4fb1-8173-da0d113335de', 'reserved', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '00a6cf34277b8107c244e5a48dc95d6873cc98707d6d6eef7d5630dba530b49e', '4ac67ad910cf6ab4011d4fbb8416f6fd74a54082d590bc2be96a23bd8028d182');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 3, 'c7fb1404-1236-40b4-89ba-3d0300c6aa6e', 'd521a4b3-eb3d-4fb1-8173-da0d113335de', 'spent', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '4ac67ad910cf6ab4011d4fbb8416f6fd74a54082d590bc2be96a23bd8028d182', '8408b6fc04e866b65191138fa482af513091cd376e69538359408e6f56d98733');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 4, '6a2e22fb-feb5-4ae9-96c3-21e63a954186', '68e877e1-32d8-484b-af63-1cc103ac36fe', 'reserved', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '8408b6fc04e866b65191138fa482af513091cd376e69538359408e6f56d98733', '099e0ce3d8e46fa01121f2faa5dc6c03b438d2647a14f2c2b51ea8ba8ab3c82b');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 5, '6a2e22fb-feb5-4ae9-96c3-21e63a954186', '68e877e1-32d8-484b-af63-1cc103ac36fe', 'spent', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '099e0ce3d8e46fa01121f2faa5dc6c03b438d2647a14f2c2b51ea8ba8ab3c82b', '13ffda4348adc25ffe2c9c5c0bc51e925733cf3592fabcf6eea98b3f6e2116f3');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 6, '10dfa057-405b-4f0a-9c5a-0879cddba46b', '88e087a4-068e-47c9-a678-5ff7755377e8', 'reserved', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '13ffda4348adc25ffe2c9c5c0bc51e925733cf3592fabcf6eea98b3f6e2116f3', 'efe115dbe585a1e911000280dfd4c4a4d81aa20789589feca5f5121e8eafac8c');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 7, '10dfa057-405b-4f0a-9c5a-0879cddba46b', '88e087a4-068e-47c9-a678-5ff7755377e8', 'spent', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, 'efe115dbe585a1e911000280dfd4c4a4d81aa20789589feca5f5121e8eafac8c', '437bf30a2debc7a0fc5dd25ffa424e2631061a062a68a2b7151269aaeca1f9e0');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 8, '10dfa057-405b-4f0a-9c5a-0879cddba46b', '88e087a4-068e-47c9-a678-5ff7755377e8', 'failed-spent', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '437bf30a2debc7a0fc5dd25ffa424e2631061a062a68a2b7151269aaeca1f9e0', '90d9d85ee569c355a90b55824255f13e75ab3540afb1428f63b7a9a92a78a48a');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 9, '2c7251e9-b879-45a6-93a4-2cdd9f3e4f82', '152120cb-17e2-4429-9c44-6009036f4004', 'reserved', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '90d9d85ee569c355a90b55824255f13e75ab3540afb1428f63b7a9a92a78a48a', '7eef3b6bb330fc260379c312de01ac1f1c112b36367d63b526c596e39cfb2c80');
INSERT INTO public.charges VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 10, '2c7251e9-b879-45a6-93a4-2cdd9f3e4f82', '152120cb-17e2-4429-9c44-6009036f4004', 'freed', 'run', '', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795330582, '7eef3b6bb330fc260379c312de01ac1f1c112b36367d63b526c596e39cfb2c80', '8638822f8a7ca26abf5b1a1c8ccb73798a0f2e5c66940f5a0a20d962cfac16f5');


--
-- Data for Name: decisions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.decisions VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 1, 0, 'cap', '{"delta": 1e-05, "epsilon": 6.0}', '', 1795330581, '92266bdcac078ae676bd7fcc082b922b67bac63415b61cd3768f56facdeb68a7', '3fb261ffbe41acc9a28dbf76fc3adbd2ae581d6f41606390a8deb2aa1ff1f58a');
INSERT INTO public.decisions VALUES ('aeb62699-e9a5-45a0-8c0b-250e2c128a84', 2, 0, 'unit', '{"id_column": null, "neighbours": "replace_one", "protects": "person", "rows_per_unit": 1}', '', 1795330581, '3fb261ffbe41acc9a28dbf76fc3adbd2ae581d6f41606390a8deb2aa1ff1f58a', '7bb508c8ac0949aefe49a3bd6badaf0b5f260a055ce6bc28931d358ca48dff7a');


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: releases; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.runs VALUES ('ea4eac05-48f8-435b-a126-45499d2573f1', 'aeb62699-e9a5-45a0-8c0b-250e2c128a84', NULL, NULL, 'waiting', '{"account": "town", "unit": {"protects": "person", "rows_per_unit": 1}, "row_count": "public", "budget": {"epsilon": 1.0, "delta": 1e-06}, "generator": {"name": "independent", "options": {}}, "rows": 5, "columns": {"age": {"type": "number", "low": 0, "high": 100, "step": 1, "fallback": 40}}}', 'queued', '', 0, 0, '[]', '', NULL, NULL, 0, 0, 1, NULL, NULL, NULL, false, NULL, NULL, NULL, 1795330581, NULL, NULL);
INSERT INTO public.runs VALUES ('d521a4b3-eb3d-4fb1-8173-da0d113335de', 'aeb62699-e9a5-45a0-8c0b-250e2c128a84', NULL, NULL, 'at work', '{"account": "town", "unit": {"protects": "person", "rows_per_unit": 1}, "row_count": "public", "budget": {"epsilon": 1.0, "delta": 1e-06}, "generator": {"name": "independent", "options": {}}, "rows": 5, "columns": {"age": {"type": "number", "low": 0, "high": 100, "step": 1, "fallback": 40}}}', 'running', '', 0, 0, '[]', '', NULL, NULL, 0, 0, 2, 'a machine of before', 1, 1, true, 1795330582, NULL, NULL, 1795330582, 1795330582, NULL);
INSERT INTO public.runs VALUES ('68e877e1-32d8-484b-af63-1cc103ac36fe', 'aeb62699-e9a5-45a0-8c0b-250e2c128a84', NULL, NULL, 'measured', '{"account": "town", "unit": {"protects": "person", "rows_per_unit": 1}, "row_count": "public", "budget": {"epsilon": 1.0, "delta": 1e-06}, "generator": {"name": "independent", "options": {}}, "rows": 5, "columns": {"age": {"type": "number", "low": 0, "high": 100, "step": 1, "fallback": 40}}}', 'measured', '', 0, 0, '[]', '', NULL, NULL, 0, 0, 3, 'a machine of before', 1, 1, true, 1795330582, NULL, NULL, 1795330582, 1795330582, NULL);
INSERT INTO public.runs VALUES ('88e087a4-068e-47c9-a678-5ff7755377e8', 'aeb62699-e9a5-45a0-8c0b-250e2c128a84', NULL, NULL, 'failed', '{"account": "town", "unit": {"protects": "person", "rows_per_unit": 1}, "row_count": "public", "budget": {"epsilon": 1.0, "delta": 1e-06}, "generator": {"name": "independent", "options": {}}, "rows": 5, "columns": {"age": {"type": "number", "low": 0, "high": 100, "step": 1, "fallback": 40}}}', 'failed', '', 0, 0, '[]', 'The worker stopped without a word.', NULL, NULL, 0, 0, 4, 'a machine of before', 1, 1, true, 1795330582, NULL, NULL, 1795330582, 1795330582, 1795330582);
INSERT INTO public.runs VALUES ('152120cb-17e2-4429-9c44-6009036f4004', 'aeb62699-e9a5-45a0-8c0b-250e2c128a84', NULL, NULL, 'cancelled', '{"account": "town", "unit": {"protects": "person", "rows_per_unit": 1}, "row_count": "public", "budget": {"epsilon": 1.0, "delta": 1e-06}, "generator": {"name": "independent", "options": {}}, "rows": 5, "columns": {"age": {"type": "number", "low": 0, "high": 100, "step": 1, "fallback": 40}}}', 'cancelled', '', 0, 0, '[]', 'The run was cancelled before it began.', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, 1795330582, NULL, 1795330582);


--
-- Data for Name: store_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_version VALUES (3, NULL);


--
-- Data for Name: tables; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Name: events_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_id_seq', 1, false);


--
-- Name: accounts accounts_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_name_key UNIQUE (name);


--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);


--
-- Name: charges charges_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_pkey PRIMARY KEY (account_id, "position");


--
-- Name: decisions decisions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_pkey PRIMARY KEY (account_id, number);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);


--
-- Name: releases releases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_pkey PRIMARY KEY (id);


--
-- Name: runs runs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);


--
-- Name: store_version store_version_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.store_version
    ADD CONSTRAINT store_version_pkey PRIMARY KEY (number);


--
-- Name: tables tables_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tables
    ADD CONSTRAINT tables_pkey PRIMARY KEY (id);


--
-- Name: ix_charges_charge_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_charges_charge_id ON public.charges USING btree (charge_id);


--
-- Name: ix_charges_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_charges_run_id ON public.charges USING btree (run_id);


--
-- Name: ix_events_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_events_account_id ON public.events USING btree (account_id);


--
-- Name: ix_events_kind; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_events_kind ON public.events USING btree (kind);


--
-- Name: ix_releases_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_releases_account_id ON public.releases USING btree (account_id);


--
-- Name: ix_releases_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_releases_run_id ON public.releases USING btree (run_id);


--
-- Name: ix_runs_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_runs_account_id ON public.runs USING btree (account_id);


--
-- Name: ix_runs_state; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_runs_state ON public.runs USING btree (state);


--
-- Name: ix_tables_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_account_id ON public.tables USING btree (account_id);


--
-- Name: ix_tables_fingerprint; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_fingerprint ON public.tables USING btree (fingerprint);


--
-- Name: accounts accounts_fixed; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_fixed BEFORE UPDATE ON public.accounts FOR EACH ROW WHEN ((((new.id)::text IS DISTINCT FROM (old.id)::text) OR ((new.name)::text IS DISTINCT FROM (old.name)::text) OR (new.created IS DISTINCT FROM old.created) OR ((old.neighbours IS NOT NULL) AND ((new.neighbours)::text IS DISTINCT FROM (old.neighbours)::text)) OR ((old.protects IS NOT NULL) AND (new.protects IS DISTINCT FROM old.protects)) OR ((old.id_column IS NOT NULL) AND (new.id_column IS DISTINCT FROM old.id_column)) OR ((old.rows_per_unit IS NOT NULL) AND (new.rows_per_unit IS DISTINCT FROM old.rows_per_unit)))) EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: accounts accounts_stay; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON public.accounts FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER charges_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.charges FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: decisions decisions_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER decisions_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.decisions FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: events events_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER events_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: releases releases_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER releases_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.releases FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: decisions decisions_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: releases releases_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: releases releases_run_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);


--
-- Name: runs runs_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: runs runs_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_table_id_fkey FOREIGN KEY (table_id) REFERENCES public.tables(id);


--
-- Name: runs runs_test_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_test_table_id_fkey FOREIGN KEY (test_table_id) REFERENCES public.tables(id);


--
-- Name: tables tables_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tables
    ADD CONSTRAINT tables_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- PostgreSQL database dump complete
--


